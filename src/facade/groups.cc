#include "distwrap/groups.h"

#include "base/error.h"
#include "base/settings.h"
#include "facade/binding.h"
#include "group/backend_string.h"
#include "group/group_end.h"
#include "group/group_make.h"
#include "plugin/module_paths.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap {
namespace {

using group::GroupState;

absl::StatusOr<Group> handle_of(
    absl::StatusOr<std::shared_ptr<GroupState>> made) {
  if (!made.ok()) return made.status();
  return Group(*std::move(made));
}

absl::Status not_member(const GroupState& group, absl::string_view op,
                        absl::string_view what, absl::string_view expected) {
  return base::make_error({.reason = Reason::kRankNotMember,
                           .what = std::string(what),
                           .op = std::string(op),
                           .group = group.name(),
                           .my_rank = group.rank(),
                           .group_size = group.size(),
                           .expected = std::string(expected),
                           .next_step = "name a member of the group"});
}

}  // namespace

absl::StatusOr<Group> split_group(const SplitOptions& options) {
  const auto parent = facade::group_for(options.parent, "split_group");
  if (!parent.ok()) return parent.status();
  return handle_of(group::split(**parent, options));
}

absl::StatusOr<Group> split_group_by_color(int64_t color, int64_t key,
                                           const SplitOptions& options) {
  const auto parent = facade::group_for(options.parent, "split_group_by_color");
  if (!parent.ok()) return parent.status();
  return handle_of(group::split_by_color(**parent, color, key, options));
}

absl::StatusOr<Group> new_group(const NewGroupOptions& options) {
  const auto world = facade::group_for({}, "new_group");
  if (!world.ok()) return world.status();
  return handle_of(group::make_group(**world, options));
}

absl::Status abort(const Group& group) {
  const auto state = facade::group_for(group, "abort");
  if (!state.ok()) return state.status();
  group::abort_group(**state,
                     absl::StrCat("rank ", (*state)->rank(), " called abort"));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> get_process_group_ranks(const Group& group) {
  const auto state = facade::group_for(group, "get_process_group_ranks");
  if (!state.ok()) return state.status();
  return (*state)->global_ranks();
}

absl::StatusOr<int> get_group_rank(const Group& group, int global_rank) {
  constexpr char kOp[] = "get_group_rank";
  const auto state = facade::group_for(group, kOp);
  if (!state.ok()) return state.status();
  const int rank = (*state)->group_rank(global_rank);
  if (rank >= 0) return rank;
  return not_member(
      **state, kOp,
      absl::StrCat("Global rank ", global_rank, " is not in process group"),
      "");
}

absl::StatusOr<int> get_global_rank(const Group& group, int group_rank) {
  constexpr char kOp[] = "get_global_rank";
  const auto state = facade::group_for(group, kOp);
  if (!state.ok()) return state.status();
  if (group_rank >= 0 && group_rank < (*state)->size())
    return (*state)->global_ranks()[static_cast<size_t>(group_rank)];
  return not_member(
      **state, kOp,
      absl::StrCat("Group rank ", group_rank, " is not in process group"),
      absl::StrCat("0 <= rank < ", (*state)->size()));
}

absl::StatusOr<std::string> get_backend(const Group& group, Device device) {
  const auto state = facade::group_for(group, "get_backend");
  if (!state.ok()) return state.status();
  const comm::BackendCommunicator* const found = (*state)->find(device);
  if (found == nullptr) return (*state)->no_communicator(device);
  return std::string(found->backend());
}

absl::Status set_timeout(const Group& group, absl::Duration timeout) {
  constexpr char kOp[] = "set_timeout";
  const auto state = facade::group_for(group, kOp);
  if (!state.ok()) return state.status();
  if (timeout > absl::ZeroDuration()) {
    (*state)->set_timeout(timeout);
    return absl::OkStatus();
  }
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = "the timeout is not positive",
                           .op = kOp,
                           .group = (*state)->name(),
                           .my_rank = (*state)->rank(),
                           .group_size = (*state)->size(),
                           .actual = absl::FormatDuration(timeout),
                           .next_step = "give InfiniteDuration for none"});
}

absl::StatusOr<std::vector<DeviceBackend>> parse_backend(
    absl::string_view text) {
  const Session session = facade::session_of_thread();
  plugin::Registry others(
      plugin::plugin_folders(base::Environment::of_process()));
  const auto choices = group::parse_backends(
      text, session ? session.state()->plugins() : others);
  if (!choices.ok()) return choices.status();
  return group::spelled_backends(*choices);
}

std::string format_backend(const std::vector<DeviceBackend>& backends) {
  std::string text;
  for (const DeviceBackend& one : backends)
    absl::StrAppend(&text, text.empty() ? "" : ",", one.device, ":",
                    one.backend);
  return text;
}

bool is_available() { return true; }

}  // namespace distwrap
