#include "distwrap/groups.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "base/settings.h"
#include "facade/binding.h"
#include "facade/shown_call.h"
#include "group/backend_string.h"
#include "group/group_call.h"
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

// The time limit for telling the other ranks that a hook has refused the call.
constexpr absl::Duration kTell = absl::Seconds(1);

// A call that makes a group from `parent`. When a hook refuses it, the ranks
// that this rank reaches over the parent learn it at once; others wait until
// the deadline of their own call.
template <class Describe, class Body>
absl::StatusOr<Group> shown_making(GroupState& parent, const char* name,
                                   const Describe& describe, const Body& body,
                                   bool all_meet = true) {
  const uint64_t met = group::meetings_of(parent);
  const auto guarded = [&]() -> absl::StatusOr<Group> {
    try {
      return body();
    } catch (...) {
      const absl::Status error = base::error_of_exception(name);
      if (all_meet) group::refuse_thrown_call(parent, met, name, error);
      return error;
    }
  };
  return facade::shown(
      parent,
      [&](HookedCall& call) {
        call.op = name;
        if (const auto session = parent.session())
          call.timeout = session->init_timeout();
        describe(call);
      },
      [&](ErrorInfo why) {
        why.ranks = {parent.rank()};
        why.reason = Reason::kAborted;
        if (all_meet)
          group::refuse_call(parent, {name, 0, ""}, why,
                             Deadline::after(kTell));
      },
      guarded);
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

absl::StatusOr<Group> split_group(const SplitOptions& options) try {
  const auto parent = facade::usable_group(options.parent, "split_group");
  if (!parent.ok()) return parent.status();
  return shown_making(
      **parent, "split_group", [&](HookedCall& call) { call.split = &options; },
      [&] { return handle_of(group::split(**parent, options)); });
} catch (...) {
  return base::error_of_exception("split_group");
}

absl::StatusOr<Group> split_group_by_color(int64_t color, int64_t key,
                                           const SplitOptions& options) try {
  const auto parent =
      facade::usable_group(options.parent, "split_group_by_color");
  if (!parent.ok()) return parent.status();
  return shown_making(
      **parent, "split_group_by_color",
      [&](HookedCall& call) {
        call.split = &options;
        call.color = color;
        call.key = key;
      },
      [&] {
        return handle_of(group::split_by_color(**parent, color, key, options));
      });
} catch (...) {
  return base::error_of_exception("split_group_by_color");
}

absl::StatusOr<Group> new_group(const NewGroupOptions& options) try {
  const auto world = facade::usable_group({}, "new_group");
  if (!world.ok()) return world.status();
  return shown_making(
      **world, "new_group",
      [&](HookedCall& call) { call.new_group = &options; },
      [&] { return handle_of(group::make_group(**world, options)); },
      !options.use_local_synchronization);
} catch (...) {
  return base::error_of_exception("new_group");
}

absl::Status abort(const Group& group) try {
  const auto state = facade::usable_group(group, "abort");
  if (!state.ok()) return state.status();
  std::shared_ptr<comm::HookRun> run;
  if ((*state)->hooks()->wanted()) {
    run = std::make_shared<comm::HookRun>((*state)->hooks());
    run->call().op = "abort";
    if (absl::Status refused = run->pre(); !refused.ok())
      base::log(base::LogLevel::kWarning,
                absl::StrCat(base::cause_text(run->refusal(refused)),
                             "; an abort cannot be refused"));
  }
  group::abort_group(**state,
                     absl::StrCat("rank ", (*state)->rank(), " called abort"));
  if (run != nullptr) run->post(absl::OkStatus());
  return absl::OkStatus();
} catch (...) {
  return base::error_of_exception("abort");
}

absl::StatusOr<std::vector<int>> get_process_group_ranks(
    const Group& group) try {
  const auto state = facade::group_for(group, "get_process_group_ranks");
  if (!state.ok()) return state.status();
  return (*state)->global_ranks();
} catch (...) {
  return base::error_of_exception("get_process_group_ranks");
}

absl::StatusOr<int> get_group_rank(const Group& group, int global_rank) try {
  constexpr char kOp[] = "get_group_rank";
  const auto state = facade::group_for(group, kOp);
  if (!state.ok()) return state.status();
  const int rank = (*state)->group_rank(global_rank);
  if (rank >= 0) return rank;
  return not_member(
      **state, kOp,
      absl::StrCat("Global rank ", global_rank, " is not in process group"),
      "");
} catch (...) {
  return base::error_of_exception("get_group_rank");
}

absl::StatusOr<int> get_global_rank(const Group& group, int group_rank) try {
  constexpr char kOp[] = "get_global_rank";
  const auto state = facade::group_for(group, kOp);
  if (!state.ok()) return state.status();
  if (group_rank >= 0 && group_rank < (*state)->size())
    return (*state)->global_ranks()[static_cast<size_t>(group_rank)];
  return not_member(
      **state, kOp,
      absl::StrCat("Group rank ", group_rank, " is not in process group"),
      absl::StrCat("0 <= rank < ", (*state)->size()));
} catch (...) {
  return base::error_of_exception("get_global_rank");
}

absl::StatusOr<std::string> get_backend(const Group& group, Device device) try {
  const auto state = facade::group_for(group, "get_backend");
  if (!state.ok()) return state.status();
  const comm::BackendCommunicator* const found = (*state)->find(device);
  if (found == nullptr) return (*state)->no_communicator(device);
  return std::string(found->backend());
} catch (...) {
  return base::error_of_exception("get_backend");
}

absl::Status set_timeout(const Group& group, absl::Duration timeout) try {
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
} catch (...) {
  return base::error_of_exception("set_timeout");
}

absl::StatusOr<std::vector<DeviceBackend>> parse_backend(
    absl::string_view text) try {
  const Session session = facade::session_of_thread();
  plugin::Registry others(
      plugin::plugin_folders(base::Environment::of_process()));
  const auto choices = group::parse_backends(
      text, session ? session.state()->plugins() : others);
  if (!choices.ok()) return choices.status();
  return group::spelled_backends(*choices);
} catch (...) {
  return base::error_of_exception("parse_backend");
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
