#include "group/group_end.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/guard_door.h"
#include "base/log.h"
#include "comm/hooks.h"
#include "group/close_barrier.h"
#include "group/deferred_destroy.h"
#include "group/group_call.h"
#include "group/session_state.h"

#include <absl/strings/str_cat.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::group {
namespace {

// The time for which the end of a group waits for other members before it is
// deferred.
constexpr absl::Duration kTogether = absl::Milliseconds(20);
// The part of an abort's 50 ms that may be used to tell the other ranks why.
constexpr absl::Duration kTellWhy = absl::Milliseconds(30);

// Ends the groups below this one, the newest first, children before their
// parents.
void end_below(GroupState& group,
               std::vector<std::shared_ptr<GroupState>>* ended) {
  auto children = group.end();
  if (!children.has_value()) return;
  for (auto child = children->rbegin(); child != children->rend(); ++child) {
    end_below(**child, ended);
    ended->push_back(*child);
  }
}

// The end of a group and of the groups below it, as their hooks see it.
class ShownEnd {
 public:
  explicit ShownEnd(const GroupState& group) {
    show(group);
    for (const auto& one : runs_)
      if (absl::Status refused = one->pre(); !refused.ok())
        base::log(base::LogLevel::kWarning,
                  absl::StrCat(base::cause_text(one->refusal(refused)),
                               "; the end of a group cannot be refused"));
  }
  ~ShownEnd() {
    for (const auto& one : runs_) one->post(status_);
  }
  ShownEnd(const ShownEnd&) = delete;
  ShownEnd& operator=(const ShownEnd&) = delete;

  // Notes the result of the end, and returns it.
  absl::Status conclude(absl::Status status) {
    return status_ = std::move(status);
  }

 private:
  // In the order in which they end: the newest first.
  void show(const GroupState& group) {
    const auto children = group.children();
    for (auto child = children.rbegin(); child != children.rend(); ++child)
      show(**child);
    if (!group.hooks()->wanted()) return;
    auto run = std::make_shared<comm::HookRun>(group.hooks());
    run->call().op = "destroy_process_group";
    runs_.push_back(std::move(run));
  }

  std::vector<std::shared_ptr<comm::HookRun>> runs_;
  absl::Status status_;
};

// Returns whether no operation had failed. A call mismatch that no call has
// reported is added to `mismatch`, unless that is null.
bool drain(GroupState& group, Deadline deadline, absl::Status* mismatch) {
  bool clean = true, differs = false;
  for (auto channel = group.channels().rbegin();
       channel != group.channels().rend(); ++channel) {
    clean = channel->communicator->drain(deadline) && clean;
    if (mismatch == nullptr) continue;
    const absl::Status status = channel->communicator->pending_mismatch();
    differs |= !status.ok();
    mismatch->Update(status);
  }
  if (differs && clean) group.leave_behind(group.failure_keys());
  return clean;
}

void drop(const std::vector<std::shared_ptr<GroupState>>& groups) {
  for (const auto& group : groups)
    give_back(*group, Deadline::after(absl::ZeroDuration())).IgnoreError();
}

// Usually the members end a group together; then no work is left when this
// returns. If this rank already waits for other groups, it does not wait here.
absl::Status depart(DeferredDestroy destroy, DeferredDestroys& deferred,
                    bool clean, Deadline deadline) {
  if (!clean) return take_down(destroy, false, deadline);
  const Deadline until = Deadline::earlier(deadline, destroy.until);
  bool all_left = destroy.close_barrier.say(until);
  if (!all_left && deferred.empty())
    all_left =
        destroy.close_barrier
            .heard_all(Deadline::earlier(until, Deadline::after(kTogether)))
            .ok();
  if (!all_left) return deferred.add(std::move(destroy));
  return take_down(destroy, true, deadline);
}

// Ends the world and all deferred groups. A receiver may find that its message
// differs while its sender is here: that becomes the sender's error.
absl::Status end_world(DeferredDestroy world, DeferredDestroys& deferred,
                       bool clean, Deadline deadline) {
  absl::Status status;
  // Stopped before this rank's last entry in the close barrier, after which it
  // touches no keys.
  const std::deque<DeferredDestroy> others = deferred.stop();
  const Deadline until = Deadline::earlier(deadline, world.until);
  const bool all_left = clean && (world.close_barrier.say(until) ||
                                  world.close_barrier.heard_all(until).ok());
  if (clean && !all_left)
    for (const auto& group : world.groups)
      for (const Channel& channel : group->channels())
        status.Update(channel.communicator->pending_mismatch());
  // When all ranks have ended the world, they have ended the groups below it.
  for (const DeferredDestroy& other : others)
    take_down(other, false, deadline).IgnoreError();
  status.Update(take_down(world, all_left, deadline));
  return status;
}

absl::Status end_open_group(GroupState& group, Deadline deadline) {
  absl::Status status;
  const base::OwnWork own_work;
  const std::shared_ptr<SessionState> session = group.session();
  const std::shared_ptr<GroupState> parent = group.parent();
  std::vector<std::shared_ptr<GroupState>> groups;
  end_below(group, &groups);
  for (const auto& child : groups)
    if (!drain(*child, deadline, &status))
      child->leave_behind(child->failure_keys());
  const bool clean = drain(group, deadline, &status);
  groups.push_back(group.shared_from_this());
  if (parent != nullptr) parent->remove_child(&group);
  if (session == nullptr) {
    drop(groups);
    return status;
  }
  for (const auto& ended : groups) session->registry().destroy(Group(ended));

  const std::shared_ptr<GroupState>& world = session->world();
  // The world uses the store, which ends with it.
  std::shared_ptr<comm::GroupBoard> group_board =
      world.get() == &group ? nullptr : group.group_board();
  DeferredDestroy destroy{
      std::move(groups),
      {},
      group_board != nullptr
          ? CloseBarrier(std::move(group_board))
          : CloseBarrier(group.store(), group.key(""), group.size()),
      Deadline::after(session->close_limit())};
  if (world.get() == &group) {
    status.Update(
        end_world(std::move(destroy), session->deferred(), clean, deadline));
    return status;
  }
  if (parent != nullptr) destroy.heirs.push_back(parent);
  destroy.heirs.push_back(world);
  status.Update(
      depart(std::move(destroy), session->deferred(), clean, deadline));
  return status;
}

}  // namespace

absl::Status end_group(GroupState& group, Deadline deadline) {
  if (group.ended()) return absl::OkStatus();
  ShownEnd shown(group);
  if (group.ended()) return absl::OkStatus();  // a hook has ended it
  return shown.conclude(base::guarded("destroy_process_group", [&] {
    return end_open_group(group, deadline);
  }));
}

void drop_group(GroupState& group) {
  const Deadline now = Deadline::after(absl::ZeroDuration());
  std::vector<std::shared_ptr<GroupState>> groups;
  end_below(group, &groups);
  groups.push_back(group.shared_from_this());
  for (const auto& ended : groups) drain(*ended, now, nullptr);
  drop(groups);
}

void abort_group(GroupState& group, absl::string_view why) {
  const Deadline tell = Deadline::after(kTellWhy);
  std::vector<std::shared_ptr<GroupState>> all = {group.shared_from_this()};
  for (size_t i = 0; i < all.size(); ++i)
    for (auto& child : all[i]->children()) all.push_back(std::move(child));
  for (const auto& one : all) abort_call(*one, tell);
  for (const auto& one : all)
    for (const Channel& channel : one->channels()) {
      const ErrorInfo cause = {
          .reason = Reason::kAborted,
          .what = absl::StrCat("the group was aborted: ", why),
          .group = one->name(),
          .my_rank = one->rank(),
          .group_size = one->size()};
      channel.communicator->abort_everywhere(cause, tell);
      channel.communicator->abort_drain(cause, tell);
    }
}

}  // namespace distwrap::group
