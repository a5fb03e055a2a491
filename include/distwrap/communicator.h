// One backend's data path of a Group, as seen by one rank.
//
// Threads: any thread may call, several at a time. Ranks match collectives by
// the order of the calls and messages by their tags, so threads that share a
// communicator have to agree on an order themselves. A call that waits does not
// delay messages of other threads where the backend allows it (docs/groups.md).
//
// Ownership: the Group owns its communicators. A Work keeps alive what it
// needs. Buffers are contiguous. Input and output may be the same memory only
// as the in-place rule of the operation says, and may not overlap otherwise.
// Inputs are never written. Zero elements are legal. Peers and roots are ranks
// of the group.
//
//   Communicator* comm = *group.communicator();
//   comm->all_reduce(out, in, ReduceOp::kSum, {.label = "gradients"});
//
// Every method returns a Work: an ended one from a synchronous call, a running
// one from an asynchronous call. An error means that nothing was started, or
// that the synchronous operation failed. kInvalidArgument and kUnsupported are
// found before anything is sent and leave the group intact. kTimedOut,
// kPeerLost and kAborted break the group; its later calls end with
// kGroupBroken.
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

// The options of one call on a communicator.
struct CallOptions {
  bool async = false;
  // The time limit, counted from the call; unset: the group's. Zero and
  // negative values are refused.
  std::optional<absl::Duration> timeout = std::nullopt;
  // A name that the errors of the operation quote. Borrowed for the call.
  absl::string_view label = {};
};

// How a buffer is divided among the ranks (v forms): piece r belongs to rank r
// and has counts[r] elements, which begin at element displs[r]. Without displs
// the pieces are packed. Zero counts are legal. Elements between and behind the
// pieces keep their values. The arrays are borrowed for the call.
//
// A list form takes one view for each rank instead of a divided buffer; the
// views may differ in size. All ranks of a call have to use the list form. The
// output views of a list share no memory. The list is borrowed for the call.
struct Counts {
  absl::Span<const int64_t> counts;
  absl::Span<const int64_t> displs = {};
  bool whole = false;  // if true, the pieces have to fill the buffer
};

class DISTWRAP_EXPORT Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The name of the backend, for example "gloo".
  virtual absl::string_view backend() const = 0;

  // Returns when all ranks have entered.
  // MPI: MPI_Barrier. NCCL: none.
  virtual absl::StatusOr<Work> barrier(const CallOptions& options = {}) = 0;

  // Copies the root's `in` to every rank's `out`; `in` is read on the root
  // only.
  // MPI: MPI_Bcast. NCCL: ncclBroadcast. In place: out == in on the root.
  virtual absl::StatusOr<Work> broadcast(TensorView out, TensorView in,
                                         int root,
                                         const CallOptions& options = {}) = 0;

  // Reduces over all ranks to the root. `out` is written on the root only;
  // other ranks' outputs keep their contents.
  // MPI: MPI_Reduce. NCCL: ncclReduce. In place: out == in on the root.
  virtual absl::StatusOr<Work> reduce(TensorView out, TensorView in, int root,
                                      ReduceOp op,
                                      const CallOptions& options = {}) = 0;

  // Reduces over all ranks to all ranks. Count and dtype are equal on all
  // ranks.
  // MPI: MPI_Allreduce. NCCL: ncclAllReduce. In place: out == in.
  virtual absl::StatusOr<Work> all_reduce(TensorView out, TensorView in,
                                          ReduceOp op,
                                          const CallOptions& options = {}) = 0;

  // Copies rank r's `in` of n elements to block r of the root's `out` of
  // size()*n elements; other ranks' `out` is ignored.
  // MPI: MPI_Gather. NCCL: ncclGather. In place: in == block rank() of out on
  // the root.
  virtual absl::StatusOr<Work> gather(TensorView out, TensorView in, int root,
                                      const CallOptions& options = {}) = 0;
  // Copies rank r's `in` of counts[r] elements to piece r. MPI: MPI_Gatherv.
  virtual absl::StatusOr<Work> gather_v(TensorView out, TensorView in, int root,
                                        const Counts& out_counts,
                                        const CallOptions& options = {}) = 0;
  // Copies rank r's `in` to the root's outs[r].
  // MPI: MPI_Gatherv. In place: in == outs[rank()].
  virtual absl::StatusOr<Work> gather(absl::Span<const TensorView> outs,
                                      TensorView in, int root,
                                      const CallOptions& options = {}) = 0;

  // Copies block r of the root's `in` of size()*n elements to rank r's `out` of
  // n elements; other ranks' `in` is ignored.
  // MPI: MPI_Scatter. NCCL: ncclScatter. In place: out == block rank() of in on
  // the root.
  virtual absl::StatusOr<Work> scatter(TensorView out, TensorView in, int root,
                                       const CallOptions& options = {}) = 0;
  // Copies piece r to rank r's `out` of counts[r] elements. MPI: MPI_Scatterv.
  virtual absl::StatusOr<Work> scatter_v(TensorView out, TensorView in,
                                         int root, const Counts& in_counts,
                                         const CallOptions& options = {}) = 0;
  // Copies the root's ins[r] to rank r's `out`.
  // MPI: MPI_Scatterv. In place: out == ins[rank()].
  virtual absl::StatusOr<Work> scatter(TensorView out,
                                       absl::Span<const TensorView> ins,
                                       int root,
                                       const CallOptions& options = {}) = 0;

  // Copies rank r's `in` of n elements to block r of every rank's `out` of
  // size()*n elements.
  // MPI: MPI_Allgather. NCCL: ncclAllGather. In place: in == block rank() of
  // out.
  virtual absl::StatusOr<Work> all_gather(TensorView out, TensorView in,
                                          const CallOptions& options = {}) = 0;

  // Copies rank r's `in` of counts[r] elements to piece r of every rank's
  // `out`. Counts are equal on all ranks.
  // MPI: MPI_Allgatherv.
  virtual absl::StatusOr<Work> all_gather_v(
      TensorView out, TensorView in, const Counts& out_counts,
      const CallOptions& options = {}) = 0;
  // Copies rank r's `in` to every rank's outs[r].
  // MPI: MPI_Allgatherv. In place: in == outs[rank()].
  virtual absl::StatusOr<Work> all_gather(absl::Span<const TensorView> outs,
                                          TensorView in,
                                          const CallOptions& options = {}) = 0;

  // Reduces size()*n elements over all ranks; rank r gets block r, n elements.
  // MPI: MPI_Reduce_scatter_block. NCCL: ncclReduceScatter. In place: out ==
  // block rank() of in.
  virtual absl::StatusOr<Work> reduce_scatter(
      TensorView out, TensorView in, ReduceOp op,
      const CallOptions& options = {}) = 0;

  // Reduces over all ranks; rank r's `out` gets piece r, counts[r] elements.
  // Counts are equal on all ranks.
  // MPI: MPI_Reduce_scatter.
  virtual absl::StatusOr<Work> reduce_scatter_v(
      TensorView out, TensorView in, const Counts& in_counts, ReduceOp op,
      const CallOptions& options = {}) = 0;
  // Reduces all ranks' ins[r] to rank r's `out`.
  // MPI: MPI_Reduce_scatter. In place: out == ins[rank()].
  virtual absl::StatusOr<Work> reduce_scatter(
      TensorView out, absl::Span<const TensorView> ins, ReduceOp op,
      const CallOptions& options = {}) = 0;

  // Copies block j of rank i's `in` to block i of rank j's `out`; each buffer
  // has size()*n elements.
  // MPI: MPI_Alltoall. NCCL: ncclAlltoAll. Not in place.
  virtual absl::StatusOr<Work> all_to_all(TensorView out, TensorView in,
                                          const CallOptions& options = {}) = 0;

  // Copies piece j of rank i's `in` to piece i of rank j's `out`; the two
  // pieces have equal counts.
  // MPI: MPI_Alltoallv. Not in place.
  virtual absl::StatusOr<Work> all_to_all_v(
      TensorView out, TensorView in, const Counts& out_counts,
      const Counts& in_counts, const CallOptions& options = {}) = 0;
  // Copies rank i's ins[j] to rank j's outs[i].
  // MPI: MPI_Alltoallw. Not in place.
  virtual absl::StatusOr<Work> all_to_all(absl::Span<const TensorView> outs,
                                          absl::Span<const TensorView> ins,
                                          const CallOptions& options = {}) = 0;

  // Reduces the inputs of ranks 0 to rank(). The average is refused.
  // MPI: MPI_Scan. NCCL: none. In place: out == in.
  virtual absl::StatusOr<Work> scan(TensorView out, TensorView in, ReduceOp op,
                                    const CallOptions& options = {}) = 0;
  // Reduces the inputs of the ranks before this one; rank 0's `out` keeps its
  // contents.
  // MPI: MPI_Exscan. NCCL: none. In place: out == in.
  virtual absl::StatusOr<Work> exscan(TensorView out, TensorView in,
                                      ReduceOp op,
                                      const CallOptions& options = {}) = 0;

  // Sends to one peer; tags are 0 to 2^31-1. Returns when the buffer may be
  // reused, which may be only after the peer has posted its receive.
  // MPI: MPI_Send. NCCL: ncclSend.
  virtual absl::StatusOr<Work> send(TensorView in, int peer, int64_t tag = 0,
                                    const CallOptions& options = {}) = 0;

  // Receives the oldest message of one peer with this tag.
  // MPI: MPI_Recv. NCCL: ncclRecv.
  virtual absl::StatusOr<Work> recv(TensorView out, int peer, int64_t tag = 0,
                                    const CallOptions& options = {}) = 0;
};

}  // namespace distwrap

#endif  // DISTWRAP_COMMUNICATOR_H_
