#include "group/group_end.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/hooks.h"
#include "group/departures.h"
#include "group/goodbye.h"
#include "group/session_state.h"

#include <absl/strings/str_cat.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::group {
namespace {

// How long the end of a group waits for the other members before it leaves that
// to the session.
constexpr absl::Duration kTogether = absl::Milliseconds(20);
// Of the 50 ms of an abort, what may go into telling the others why.
constexpr absl::Duration kTellWhy = absl::Milliseconds(30);

// The groups below, those made last first, children before their parents.
void end_below(GroupState& group,
               std::vector<std::shared_ptr<GroupState>>* ended) {
  auto children = group.end();
  if (!children.has_value()) return;
  for (auto child = children->rbegin(); child != children->rend(); ++child) {
    end_below(**child, ended);
    ended->push_back(*child);
  }
}

// The end of a group and of those below it, shown to their hooks.
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
    for (const auto& one : runs_) one->post(absl::OkStatus());
  }
  ShownEnd(const ShownEnd&) = delete;
  ShownEnd& operator=(const ShownEnd&) = delete;

 private:
  // Newest first, as they end.
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
};

// Whether nothing had failed. Calls that differ become `untold`, unless that is
// null or a call has told of them.
bool drain(GroupState& group, Deadline deadline, absl::Status* untold) {
  bool clean = true, differs = false;
  for (auto channel = group.channels().rbegin();
       channel != group.channels().rend(); ++channel) {
    clean = channel->communicator->drain(deadline) && clean;
    if (untold == nullptr) continue;
    const absl::Status status = channel->communicator->untold();
    differs |= !status.ok();
    untold->Update(status);
  }
  if (differs && clean) group.leave_behind(group.failure_keys());
  return clean;
}

void drop(const std::vector<std::shared_ptr<GroupState>>& groups) {
  for (const auto& group : groups)
    give_back(*group, Deadline::after(absl::ZeroDuration()));
}

// Usually the members end a group together: then nothing is left when this
// returns. While others are awaited already, nobody waits here.
void depart(Departure departure, Departures& departures, bool clean,
            Deadline deadline) {
  if (!clean) return take_down(departure, false, deadline);
  const Deadline until = Deadline::earlier(deadline, departure.until);
  bool all_left = departure.goodbye.say(until);
  if (!all_left && departures.empty())
    all_left =
        departure.goodbye
            .heard_all(Deadline::earlier(until, Deadline::after(kTogether)))
            .ok();
  if (all_left) return take_down(departure, true, deadline);
  departures.add(std::move(departure));
}

// The world ends: so does all that waits for others.
void end_world(Departure world, Departures& departures, bool clean,
               Deadline deadline) {
  // Before this rank says goodbye for good: it touches no keys afterwards.
  const std::deque<Departure> others = departures.stop();
  const Deadline until = Deadline::earlier(deadline, world.until);
  const bool all_left = clean && (world.goodbye.say(until) ||
                                  world.goodbye.heard_all(until).ok());
  // When all have come, nobody is left in the groups below either.
  for (const Departure& other : others) take_down(other, false, deadline);
  take_down(world, all_left, deadline);
}

}  // namespace

absl::Status end_group(GroupState& group, Deadline deadline) {
  absl::Status untold;
  if (group.ended()) return untold;
  const ShownEnd shown(group);
  if (group.ended()) return untold;  // by a hook
  const std::shared_ptr<SessionState> session = group.session();
  const std::shared_ptr<GroupState> parent = group.parent();
  std::vector<std::shared_ptr<GroupState>> groups;
  end_below(group, &groups);
  for (const auto& child : groups)
    if (!drain(*child, deadline, &untold))
      child->leave_behind(child->failure_keys());
  const bool clean = drain(group, deadline, &untold);
  groups.push_back(group.shared_from_this());
  if (parent != nullptr) parent->remove_child(&group);
  if (session == nullptr) {
    drop(groups);
    return untold;
  }
  for (const auto& ended : groups) session->registry().destroy(Group(ended));

  const std::shared_ptr<GroupState>& world = session->world();
  // Of the world over the store, which ends with it.
  std::shared_ptr<comm::Lane> lane =
      world.get() == &group ? nullptr : group.lane();
  Departure departure{std::move(groups),
                      {},
                      lane != nullptr
                          ? Goodbye(std::move(lane))
                          : Goodbye(group.store(), group.key(""), group.size()),
                      Deadline::after(session->goodbye())};
  if (world.get() == &group) {
    end_world(std::move(departure), session->departures(), clean, deadline);
    return untold;
  }
  if (parent != nullptr) departure.heirs.push_back(parent);
  departure.heirs.push_back(world);
  depart(std::move(departure), session->departures(), clean, deadline);
  return untold;
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
  for (const auto& one : all)
    for (const Channel& channel : one->channels())
      channel.communicator->abort_everywhere(
          {.reason = Reason::kAborted,
           .what = absl::StrCat("the group was aborted: ", why),
           .group = one->name(),
           .my_rank = one->rank(),
           .group_size = one->size()},
          tell);
}

}  // namespace distwrap::group
