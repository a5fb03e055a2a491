// distwrap: one way to every communication engine. What most programs include.
//
// Functions shaped like torch.distributed on the session that is bound to the
// calling thread, else the process's only one.
// Threads: any. Ownership: buffers are the caller's and live until the
// operation is done.
//
//   distwrap::init_process_group();
//   std::vector<float> x(1024, 1.0f);
//   distwrap::all_reduce(distwrap::TensorView(x));
//   distwrap::destroy_process_group();
//
// A call without `async` returns a finished Work or an error. Roots and peers
// are ranks of the group. What each operation means, with its MPI and NCCL
// equivalents and in-place rules, stands in communicator.h.
#ifndef DISTWRAP_DISTWRAP_H_
#define DISTWRAP_DISTWRAP_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/session.h"
#include "distwrap/status.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

namespace distwrap {

// Last argument of every operation.
struct OpOptions {
  Group group = {};  // none: the world
  bool async = false;
  std::optional<absl::Duration> timeout = std::nullopt;  // unset: the group's
};

// MPI_Init, ncclCommInitRank. Makes a session and binds it to the thread.
// Errors: those of Session::create; kAlreadyInitialized.
DISTWRAP_EXPORT absl::StatusOr<Session> init_process_group(
    const InitOptions& options = {});
// MPI_Finalize, ncclCommDestroy. Closes the thread's session; kNotInitialized
// without one.
DISTWRAP_EXPORT absl::Status destroy_process_group();
DISTWRAP_EXPORT bool is_initialized();
// Makes the thread use `session`; an empty one unbinds.
DISTWRAP_EXPORT void bind_session(const Session& session);

// -1 without a session.
DISTWRAP_EXPORT int get_rank(const Group& group = {});
DISTWRAP_EXPORT int get_world_size(const Group& group = {});

DISTWRAP_EXPORT absl::StatusOr<Work> barrier(const OpOptions& options = {});
// In place: the root's elements to all ranks.
DISTWRAP_EXPORT absl::StatusOr<Work> broadcast(TensorView tensor, int root,
                                               const OpOptions& options = {});
DISTWRAP_EXPORT absl::StatusOr<Work> broadcast(TensorView out, TensorView in,
                                               int root,
                                               const OpOptions& options = {});
// In place.
DISTWRAP_EXPORT absl::StatusOr<Work> all_reduce(TensorView tensor,
                                                ReduceOp op = ReduceOp::kSum,
                                                const OpOptions& options = {});
DISTWRAP_EXPORT absl::StatusOr<Work> all_reduce(TensorView out, TensorView in,
                                                ReduceOp op,
                                                const OpOptions& options = {});
DISTWRAP_EXPORT absl::StatusOr<Work> all_gather_into_tensor(
    TensorView out, TensorView in, const OpOptions& options = {});
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter_tensor(
    TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = {});
DISTWRAP_EXPORT absl::StatusOr<Work> all_to_all_single(
    TensorView out, TensorView in, const OpOptions& options = {});

// Blocking; isend and irecv always return a running or finished Work.
DISTWRAP_EXPORT absl::Status send(TensorView tensor, int peer, int64_t tag = 0,
                                  const OpOptions& options = {});
DISTWRAP_EXPORT absl::Status recv(TensorView tensor, int peer, int64_t tag = 0,
                                  const OpOptions& options = {});
DISTWRAP_EXPORT absl::StatusOr<Work> isend(TensorView tensor, int peer,
                                           int64_t tag = 0,
                                           const OpOptions& options = {});
DISTWRAP_EXPORT absl::StatusOr<Work> irecv(TensorView tensor, int peer,
                                           int64_t tag = 0,
                                           const OpOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_DISTWRAP_H_
