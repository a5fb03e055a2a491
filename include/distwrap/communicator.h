// One backend's data path of a Group, as seen by one rank.
//
// Threads: any, several at a time. Collectives are matched between ranks in the
// order in which they are made, messages by their tags: an order between
// threads is theirs to keep. A call that waits holds no message of another
// thread up, where the backend allows it (docs/groups.md). Ownership: held by
// its Group. A Work keeps what it needs alive. Buffers are contiguous; input
// and output are the same memory only as the in-place rule of the operation
// says, and overlap in no other way. Inputs are never written. Zero elements
// are legal. Peers and roots are ranks of the group.
//
// Every method returns a Work: finished when the call was synchronous, else
// running. An error means that nothing was started, or that the synchronous
// operation failed: kInvalidArgument and kUnsupported come before anything is
// sent and break nothing; kTimedOut, kPeerLost and kAborted break the group,
// whose later calls end with kGroupBroken.
#ifndef DISTWRAP_COMMUNICATOR_H_
#define DISTWRAP_COMMUNICATOR_H_

#include "distwrap/export.h"
#include "distwrap/reduce_op.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <optional>
#include <string>

namespace distwrap {

// Of one call on a communicator.
struct CallOptions {
  bool async = false;
  // From the call on; unset: the group's. Zero or less is refused.
  std::optional<absl::Duration> timeout = std::nullopt;
  // Stands in the errors of the operation. Borrowed for the call.
  absl::string_view label = {};
};

// How a buffer is divided among the ranks (v forms): piece r is rank r's,
// counts[r] elements at displs[r], packed when there are no displs. Zero counts
// are legal; what lies between the pieces or behind them stays as it is. The
// arrays are borrowed for the call.
//
// A list form takes one view for each rank in place of a divided buffer; their
// sizes may differ. Every rank of the call uses the list form. The views of a
// list of outputs share no memory; the list is borrowed for the call.
struct Counts {
  absl::Span<const int64_t> counts;
  absl::Span<const int64_t> displs = {};
  bool whole = false;  // refused unless the pieces fill the buffer
};

class DISTWRAP_EXPORT Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "gloo".
  virtual absl::string_view backend() const = 0;

  // Returns when all ranks have entered.
  // MPI: MPI_Barrier. NCCL: none.
  virtual absl::StatusOr<Work> barrier(const CallOptions& options = {}) = 0;

  // The root's input to everybody's output; `in` is looked at on the root only.
  // MPI: MPI_Bcast. NCCL: ncclBroadcast. In place: out == in on the root.
  virtual absl::StatusOr<Work> broadcast(TensorView out, TensorView in,
                                         int root,
                                         const CallOptions& options = {}) = 0;

  // Reduces over all ranks to the root; `out` is looked at on the root only,
  // and the others keep theirs. MPI: MPI_Reduce. NCCL: ncclReduce. In place:
  // out == in on the root.
  virtual absl::StatusOr<Work> reduce(TensorView out, TensorView in, int root,
                                      ReduceOp op,
                                      const CallOptions& options = {}) = 0;

  // Reduces over all ranks, result on all. Count and dtype equal everywhere.
  // MPI: MPI_Allreduce. NCCL: ncclAllReduce. In place: out == in.
  virtual absl::StatusOr<Work> all_reduce(TensorView out, TensorView in,
                                          ReduceOp op,
                                          const CallOptions& options = {}) = 0;

  // Every rank's `in` of n elements to block r of the root's `out` of size()*n,
  // which is looked at on the root only.
  // MPI: MPI_Gather. NCCL: ncclGather. In place: in == block rank() of out on
  // the root.
  virtual absl::StatusOr<Work> gather(TensorView out, TensorView in, int root,
                                      const CallOptions& options = {}) = 0;
  // Rank r's `in` of counts[r] elements to piece r. MPI: MPI_Gatherv.
  virtual absl::StatusOr<Work> gather_v(TensorView out, TensorView in, int root,
                                        const Counts& out_counts,
                                        const CallOptions& options = {}) = 0;
  // Rank r's `in` to the root's outs[r]. MPI: MPI_Gatherv. In place: in ==
  // outs[rank()].
  virtual absl::StatusOr<Work> gather(absl::Span<const TensorView> outs,
                                      TensorView in, int root,
                                      const CallOptions& options = {}) = 0;

  // Block r of the root's `in` of size()*n elements, which is looked at on the
  // root only, to rank r's `out` of n.
  // MPI: MPI_Scatter. NCCL: ncclScatter. In place: out == block rank() of in on
  // the root.
  virtual absl::StatusOr<Work> scatter(TensorView out, TensorView in, int root,
                                       const CallOptions& options = {}) = 0;
  // Piece r to rank r's `out` of counts[r] elements. MPI: MPI_Scatterv.
  virtual absl::StatusOr<Work> scatter_v(TensorView out, TensorView in,
                                         int root, const Counts& in_counts,
                                         const CallOptions& options = {}) = 0;
  // The root's ins[r] to rank r's `out`. MPI: MPI_Scatterv. In place: out ==
  // ins[rank()].
  virtual absl::StatusOr<Work> scatter(TensorView out,
                                       absl::Span<const TensorView> ins,
                                       int root,
                                       const CallOptions& options = {}) = 0;

  // `in` of n elements to block r of every `out` of size()*n.
  // MPI: MPI_Allgather. NCCL: ncclAllGather. In place: in == block rank() of
  // out.
  virtual absl::StatusOr<Work> all_gather(TensorView out, TensorView in,
                                          const CallOptions& options = {}) = 0;

  // Rank r's `in` of counts[r] elements to piece r of every `out`; equal counts
  // on all ranks. MPI: MPI_Allgatherv.
  virtual absl::StatusOr<Work> all_gather_v(
      TensorView out, TensorView in, const Counts& out_counts,
      const CallOptions& options = {}) = 0;
  // Rank r's `in` to everybody's outs[r]. MPI: MPI_Allgatherv. In place: in ==
  // outs[rank()].
  virtual absl::StatusOr<Work> all_gather(absl::Span<const TensorView> outs,
                                          TensorView in,
                                          const CallOptions& options = {}) = 0;

  // Reduces size()*n elements over all ranks; block r to rank r, n elements.
  // MPI: MPI_Reduce_scatter_block. NCCL: ncclReduceScatter. In place: out ==
  // block rank() of in.
  virtual absl::StatusOr<Work> reduce_scatter(
      TensorView out, TensorView in, ReduceOp op,
      const CallOptions& options = {}) = 0;

  // Reduces over all ranks; piece r to rank r's `out` of counts[r] elements;
  // equal counts on all ranks. MPI: MPI_Reduce_scatter.
  virtual absl::StatusOr<Work> reduce_scatter_v(
      TensorView out, TensorView in, const Counts& in_counts, ReduceOp op,
      const CallOptions& options = {}) = 0;
  // Reduces everybody's ins[r] to rank r's `out`. MPI: MPI_Reduce_scatter. In
  // place: out == ins[rank()].
  virtual absl::StatusOr<Work> reduce_scatter(
      TensorView out, absl::Span<const TensorView> ins, ReduceOp op,
      const CallOptions& options = {}) = 0;

  // Block j of rank i's `in` to block i of rank j's `out`; size()*n each.
  // MPI: MPI_Alltoall. NCCL: ncclAlltoAll. Not in place.
  virtual absl::StatusOr<Work> all_to_all(TensorView out, TensorView in,
                                          const CallOptions& options = {}) = 0;

  // Piece j of rank i's `in` to piece i of rank j's `out`: what rank i sends to
  // j is what j receives from i. MPI: MPI_Alltoallv. Not in place.
  virtual absl::StatusOr<Work> all_to_all_v(
      TensorView out, TensorView in, const Counts& out_counts,
      const Counts& in_counts, const CallOptions& options = {}) = 0;
  // Rank i's ins[j] to rank j's outs[i]. MPI: MPI_Alltoallw. Not in place.
  virtual absl::StatusOr<Work> all_to_all(absl::Span<const TensorView> outs,
                                          absl::Span<const TensorView> ins,
                                          const CallOptions& options = {}) = 0;

  // Reduces the inputs of ranks 0 to rank(); no average.
  // MPI: MPI_Scan. NCCL: none. In place: out == in.
  virtual absl::StatusOr<Work> scan(TensorView out, TensorView in, ReduceOp op,
                                    const CallOptions& options = {}) = 0;
  // Reduces the inputs of the ranks before this one; rank 0's `out` stays as it
  // is. MPI: MPI_Exscan. NCCL: none. In place: out == in.
  virtual absl::StatusOr<Work> exscan(TensorView out, TensorView in,
                                      ReduceOp op,
                                      const CallOptions& options = {}) = 0;

  // To one peer; tags 0..2^31-1. Returns when the buffer may be reused, which
  // may await the receive. MPI: MPI_Send. NCCL: ncclSend.
  virtual absl::StatusOr<Work> send(TensorView in, int peer, int64_t tag = 0,
                                    const CallOptions& options = {}) = 0;

  // From one peer, the oldest message with this tag.
  // MPI: MPI_Recv. NCCL: ncclRecv.
  virtual absl::StatusOr<Work> recv(TensorView out, int peer, int64_t tag = 0,
                                    const CallOptions& options = {}) = 0;
};

}  // namespace distwrap

#endif  // DISTWRAP_COMMUNICATOR_H_
