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
// What each operation means, with its MPI and NCCL equivalents and in-place
// rules, stands in operations.h.
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

// MPI_Init, ncclCommInitRank. Makes a session and binds it to the thread.
// Errors: those of Session::create; kAlreadyInitialized.
DISTWRAP_EXPORT absl::StatusOr<Session> init_process_group(
    const InitOptions& options = {});
// MPI_Finalize, ncclCommDestroy. Ends a group with those split from it, newest
// first; without one, the thread's session. In flight work is drained, to the
// group's timeout or 30 s. A group that has ended: OK. Errors: kNotInitialized
// without a session; kCallMismatch, of calls that differ of which no call has
// told: all has ended all the same.
DISTWRAP_EXPORT absl::Status destroy_process_group(const Group& group = {});
DISTWRAP_EXPORT bool is_initialized();
// Makes the thread use `session`; an empty one unbinds.
DISTWRAP_EXPORT void bind_session(const Session& session);

// -1 without a session.
DISTWRAP_EXPORT int get_rank(const Group& group = {});
DISTWRAP_EXPORT int get_world_size(const Group& group = {});

}  // namespace distwrap

#endif  // DISTWRAP_DISTWRAP_H_
