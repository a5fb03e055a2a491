// Groups: making, asking, ending.
//
// Functions shaped like torch.distributed on the session that is bound to the
// calling thread, else the process's only one. A group that is not given is the
// world.
// Threads: any; calls that all ranks of a group make together are made in one
// order on all of them.
// Ownership: groups belong to the session and live until they or their parent
// are destroyed; handles then end with kGroupClosed.
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

// MPI_Comm_split, ncclCommSplit. All ranks of the parent call, with equal
// options; the list that names the caller is its group, and none gives an empty
// handle (with InitOptions::drop_in kRankNotInSplit). Errors before anything is
// sent: kInvalidArgument, kNoCommunicator, those of backend strings. Others, on
// all ranks: kCallMismatch naming two that differ, kTimedOut naming the
// missing.
DISTWRAP_EXPORT absl::StatusOr<Group> split_group(const SplitOptions& options);

// MPI_Comm_split. Ranks of one colour make a group, ordered by (key, rank in
// the parent); a negative colour makes none. `options.split_ranks` is not used.
DISTWRAP_EXPORT absl::StatusOr<Group> split_group_by_color(
    int64_t color, int64_t key, const SplitOptions& options = {});

// MPI_Comm_create_group. All ranks of the world call, or with local
// synchronisation the members; a rank outside gets an empty handle. Errors as
// of split_group; kNewGroupDisabled with InitOptions::drop_in.
DISTWRAP_EXPORT absl::StatusOr<Group> new_group(
    const NewGroupOptions& options = {});

// Fails what is in flight and to come in the group and in those split from it,
// on all members. Any thread; 50 ms.
DISTWRAP_EXPORT absl::Status abort(const Group& group = {});

// By rank of the group: ranks of the world.
DISTWRAP_EXPORT absl::StatusOr<std::vector<int>> get_process_group_ranks(
    const Group& group = {});
// Between the numbers of the world and of the group. kRankNotMember.
DISTWRAP_EXPORT absl::StatusOr<int> get_group_rank(const Group& group,
                                                   int global_rank);
DISTWRAP_EXPORT absl::StatusOr<int> get_global_rank(const Group& group,
                                                    int group_rank);
// Name of the backend that serves memory of this kind. kNoCommunicator.
DISTWRAP_EXPORT absl::StatusOr<std::string> get_backend(const Group& group = {},
                                                        Device device = kCpu);
// Of operations to come that give no timeout. kInvalidArgument unless positive.
DISTWRAP_EXPORT absl::Status set_timeout(const Group& group,
                                         absl::Duration timeout);

// An operation that a group can do, and the element types it can do it with;
// one that reduces, with each of its reductions too. No types: no buffer.
struct DISTWRAP_EXPORT Capability {
  struct Reduction {
    ReduceOp::Kind op;
    std::vector<DType> dtypes;
  };
  std::string operation;
  std::vector<DType> dtypes;
  std::vector<Reduction> reductions = {};

  // Whether it takes elements of `dtype`, and those with `op`.
  bool takes(DType dtype) const;
  bool takes(DType dtype, ReduceOp::Kind op) const;
};
// Of the communicator for memory of this kind. kNoCommunicator.
DISTWRAP_EXPORT absl::StatusOr<std::vector<Capability>> capabilities(
    const Group& group = {}, Device device = kCpu);

// "gloo" or "cpu:gloo,cuda:nccl" as devices and names, in the order of the
// text. Errors: kBackendMissing, kBackendFormat, kBackendUnknown,
// kDeviceUnknown, kDeviceDuplicate. Needs no session.
DISTWRAP_EXPORT absl::StatusOr<std::vector<DeviceBackend>> parse_backend(
    absl::string_view text);
// "cpu:gloo,cuda:nccl": what parse_backend reads.
DISTWRAP_EXPORT std::string format_backend(
    const std::vector<DeviceBackend>& backends);

// Whether this library can communicate here at all: always.
DISTWRAP_EXPORT bool is_available();

}  // namespace distwrap

#endif  // DISTWRAP_GROUPS_H_
