// Making groups, asking about them, and ending them.
//
// The functions are shaped like those of torch.distributed. They use the
// session that is bound to the calling thread, or else the only session of the
// process. A group that is not given is the world.
// Threads: any. Calls that all ranks of a group make together have to be made
// in the same order on all of them.
// Ownership: groups belong to the session and live until they or their parent
// are destroyed; calls on remaining handles then end with kGroupClosed.
//
//   auto half = distwrap::split_group({.split_ranks = {{0, 1}, {2, 3}}});
//   distwrap::all_reduce(x, distwrap::ReduceOp::kSum, {.group = *half});
//   distwrap::destroy_process_group(*half);
#ifndef DISTWRAP_GROUPS_H_
#define DISTWRAP_GROUPS_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/group_options.h"
#include "distwrap/group_registry.h"
#include "distwrap/reduce_op.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap {

// MPI_Comm_split, ncclCommSplit. All ranks of the parent call with equal
// options. The list that names the caller becomes its group; a rank in no list
// gets an empty handle (with InitOptions::drop_in the error kRankNotInSplit).
// Errors before anything is sent: kInvalidArgument, kNoCommunicator, and those
// of backend strings. Errors on all ranks: kCallMismatch names two ranks that
// differ, kTimedOut names the missing ranks.
DISTWRAP_EXPORT absl::StatusOr<Group> split_group(const SplitOptions& options);

// MPI_Comm_split. Ranks with the same color form a group, ordered by (key, rank
// in the parent); a negative color gives an empty handle. `options.split_ranks`
// is ignored.
DISTWRAP_EXPORT absl::StatusOr<Group> split_group_by_color(
    int64_t color, int64_t key, const SplitOptions& options = {});

// MPI_Comm_create_group. All ranks of the world call or, with local
// synchronisation, only the members; a rank outside gets an empty handle.
// Errors: those of split_group; kNewGroupDisabled with InitOptions::drop_in.
DISTWRAP_EXPORT absl::StatusOr<Group> new_group(
    const NewGroupOptions& options = {});

// MPI_Abort, ncclCommAbort. Fails all present and future operations of the
// group, and of the groups split from it, on all members within 50 ms.
DISTWRAP_EXPORT absl::Status abort(const Group& group = {});

// The members as ranks of the world, by rank of the group.
DISTWRAP_EXPORT absl::StatusOr<std::vector<int>> get_process_group_ranks(
    const Group& group = {});
// Translate a rank between the numbering of the world and of the group. Error:
// kRankNotMember.
DISTWRAP_EXPORT absl::StatusOr<int> get_group_rank(const Group& group,
                                                   int global_rank);
DISTWRAP_EXPORT absl::StatusOr<int> get_global_rank(const Group& group,
                                                    int group_rank);
// The name of the backend that serves memory of this device type. Error:
// kNoCommunicator.
DISTWRAP_EXPORT absl::StatusOr<std::string> get_backend(const Group& group = {},
                                                        Device device = kCpu);
// Sets the time limit of future operations whose options give none.
// kInvalidArgument unless positive.
DISTWRAP_EXPORT absl::Status set_timeout(const Group& group,
                                         absl::Duration timeout);

// An operation that a group supports, and its element types. An operation that
// reduces also lists the element types of each reduction. An operation without
// a buffer has no element types.
struct DISTWRAP_EXPORT Capability {
  struct Reduction {
    ReduceOp::Kind op;
    std::vector<DType> dtypes;
  };
  std::string operation;
  std::vector<DType> dtypes;
  std::vector<Reduction> reductions = {};

  // Whether the operation supports elements of `dtype`, alone or with the
  // reduction `op`.
  bool takes(DType dtype) const;
  bool takes(DType dtype, ReduceOp::Kind op) const;
};
// The operations of the communicator for memory of this device type. Error:
// kNoCommunicator.
DISTWRAP_EXPORT absl::StatusOr<std::vector<Capability>> capabilities(
    const Group& group = {}, Device device = kCpu);

// Parses "gloo" or "cpu:gloo,cuda:nccl" into devices and backend names, in the
// order of the text. Needs no session. Errors: kBackendMissing, kBackendFormat,
// kBackendUnknown, kDeviceUnknown, kDeviceDuplicate.
DISTWRAP_EXPORT absl::StatusOr<std::vector<DeviceBackend>> parse_backend(
    absl::string_view text);
// The backend string that parse_backend reads, for example
// "cpu:gloo,cuda:nccl".
DISTWRAP_EXPORT std::string format_backend(
    const std::vector<DeviceBackend>& backends);

// Whether this library can communicate on this machine: always true.
DISTWRAP_EXPORT bool is_available();

}  // namespace distwrap

#endif  // DISTWRAP_GROUPS_H_
