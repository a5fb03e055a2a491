// distwrap: one interface to every communication engine. Most programs include
// only this header.
//
// The functions are shaped like those of torch.distributed. They use the
// session that is bound to the calling thread, or else the only session of the
// process.
// Threads: any. Ownership: buffers stay the caller's and must live until the
// operation has ended.
//
//   distwrap::init_process_group();
//   std::vector<float> x(1024, 1.0f);
//   distwrap::all_reduce(distwrap::TensorView(x));
//   distwrap::destroy_process_group();
//
// operations.h describes every operation with its MPI and NCCL equivalents and
// its in-place rule.
#ifndef DISTWRAP_DISTWRAP_H_
#define DISTWRAP_DISTWRAP_H_

#include "distwrap/batch.h"
#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/groups.h"
#include "distwrap/hooks.h"
#include "distwrap/objects.h"
#include "distwrap/operations.h"
#include "distwrap/session.h"
#include "distwrap/status.h"
#include "distwrap/tensor_view.h"
#include "distwrap/window.h"
#include "distwrap/work.h"

namespace distwrap {

// MPI_Init, ncclCommInitRank. Creates a session and binds it to the thread.
// Errors: those of Session::create; kAlreadyInitialized.
DISTWRAP_EXPORT absl::StatusOr<Session> init_process_group(
    const InitOptions& options = {});
// MPI_Finalize, ncclCommDestroy. Ends a group and the groups split from it,
// newest first; without an argument, ends the thread's session. Work in flight
// may finish until the group's timeout or for 30 s, whichever is shorter.
// Ending a group that has already ended is OK. Errors: kNotInitialized without
// a session; kCallMismatch when ranks made different calls and no earlier call
// has reported it; kTimedOut when a backend cannot end its part yet, as NCCL
// while a captured graph is left. Everything has ended nevertheless.
DISTWRAP_EXPORT absl::Status destroy_process_group(const Group& group = {});
DISTWRAP_EXPORT bool is_initialized();
// Makes the calling thread use `session`; an empty session unbinds the thread.
DISTWRAP_EXPORT void bind_session(const Session& session);

// This rank and the number of ranks in `group`; -1 without a session.
DISTWRAP_EXPORT int get_rank(const Group& group = {});
DISTWRAP_EXPORT int get_world_size(const Group& group = {});

}  // namespace distwrap

#endif  // DISTWRAP_DISTWRAP_H_
