// One backend's data path of a Group, as seen by one rank.
//
// Threads: any method from any thread. Calls on one communicator are matched
// between ranks in the order in which they are made: threads that share one
// order their calls themselves.
// Ownership: held by its Group. A Work keeps what it needs alive.
// Buffers are contiguous; input and output are the same memory only as the
// in-place rule of the operation says, and overlap in no other way. Inputs are
// never written. Zero elements are legal.
// Peers and roots are ranks of the group.
//
// Every method returns a Work: finished when the call was synchronous, else
// running. An error means that nothing was started, or that the synchronous
// operation failed: kInvalidArgument and kUnsupported come before anything is
// sent and break nothing; kTimedOut, kPeerLost and kAborted break the group,
// whose later calls end with kGroupBroken.
#ifndef DISTWRAP_COMMUNICATOR_H_
#define DISTWRAP_COMMUNICATOR_H_

#include "distwrap/export.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>

namespace distwrap {

// Of one call on a communicator.
struct CallOptions {
  bool async = false;
  // From the call on; unset: the group's. Zero or less is refused.
  std::optional<absl::Duration> timeout = std::nullopt;
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

  // Reduces over all ranks, result on all. Count and dtype equal everywhere.
  // MPI: MPI_Allreduce. NCCL: ncclAllReduce. In place: out == in.
  virtual absl::StatusOr<Work> all_reduce(TensorView out, TensorView in,
                                          ReduceOp op,
                                          const CallOptions& options = {}) = 0;

  // `in` of n elements to block r of every `out` of size()*n.
  // MPI: MPI_Allgather. NCCL: ncclAllGather. In place: in == block rank() of
  // out.
  virtual absl::StatusOr<Work> all_gather(TensorView out, TensorView in,
                                          const CallOptions& options = {}) = 0;

  // Reduces size()*n elements over all ranks; block r to rank r, n elements.
  // MPI: MPI_Reduce_scatter_block. NCCL: ncclReduceScatter. In place: out ==
  // block rank() of in.
  virtual absl::StatusOr<Work> reduce_scatter(
      TensorView out, TensorView in, ReduceOp op,
      const CallOptions& options = {}) = 0;

  // Block j of rank i's `in` to block i of rank j's `out`; size()*n each.
  // MPI: MPI_Alltoall. NCCL: ncclAlltoAll. Not in place.
  virtual absl::StatusOr<Work> all_to_all(TensorView out, TensorView in,
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
