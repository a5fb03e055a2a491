#include "player.h"

#include "call.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <thread>

namespace distwrap::programs {
namespace {

constexpr size_t kMostRunning = 16;

}  // namespace

Player::Player(const Program& program, Session session, bool delays)
    : program_(program),
      session_(std::move(session)),
      delays_(delays),
      random_(program.seed ^ static_cast<uint64_t>(session_.rank() + 1)) {
  groups_[0] = session_.world();
}

Player::~Player() = default;

bool Player::is_member(int group) const {
  const std::vector<int>& members =
      program_.members[static_cast<size_t>(group)];
  return std::find(members.begin(), members.end(), session_.rank()) !=
         members.end();
}

void Player::dawdle() {
  if (delays_ && random_() % 8 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
}

std::string Player::play() {
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    dawdle();
    const std::string wrong = take(program_.steps[i]);
    if (!wrong.empty())
      return absl::StrCat("rank ", session_.rank(), ", step ", i, ": ", wrong);
  }
  const std::string wrong = settle(0);
  return wrong.empty() ? ""
                       : absl::StrCat("rank ", session_.rank(), ": ", wrong);
}

std::string Player::take(const Step& step) {
  switch (step.act) {
    case Act::kOperate:
      return is_member(step.group) ? operate(step) : "";
    case Act::kEnd:
      return is_member(step.group) ? end(step) : "";
    default:
      return make_groups(step);
  }
}

std::string Player::operate(const Step& step) {
  const Group& group = groups_.at(step.group);
  auto call = std::make_unique<Call>(
      step.operation, program_.members[static_cast<size_t>(step.group)],
      group.rank());
  if (std::string wrong = call->start(group); !wrong.empty()) return wrong;
  running_.push_back(std::move(call));
  return settle(random_() % kMostRunning);
}

std::string Player::settle(size_t most) {
  while (running_.size() > most) {
    const size_t i = random_() % running_.size();
    std::swap(running_[i], running_.back());
    if (std::string wrong = running_.back()->finish(); !wrong.empty())
      return wrong;
    running_.pop_back();
  }
  return "";
}

std::string Player::make_groups(const Step& step) {
  const bool is_split = step.act == Act::kSplit || step.act == Act::kColor;
  if (is_split && !is_member(step.group)) return "";
  int mine = -1;
  for (size_t l = 0; l < step.lists.size(); ++l)
    if (is_member(step.first + static_cast<int>(l)))
      mine = step.first + static_cast<int>(l);
  if (step.act == Act::kNewLocal && mine < 0) return "";

  const auto make = [&]() -> absl::StatusOr<Group> {
    const Group& parent = groups_.at(step.group);
    if (step.act == Act::kSplit)
      return split_group({.parent = parent, .split_ranks = step.lists});
    if (step.act == Act::kNew || step.act == Act::kNewLocal)
      return new_group(
          {.ranks = step.lists.front(),
           .use_local_synchronization = step.act == Act::kNewLocal});
    const std::vector<int> none;
    const std::vector<int>& list =
        mine < 0 ? none : step.lists[static_cast<size_t>(mine - step.first)];
    const auto key = std::find(list.begin(), list.end(), parent.rank());
    return split_group_by_color(mine, key - list.begin(), {.parent = parent});
  };
  absl::StatusOr<Group> group = make();
  if (!group.ok()) return absl::StrCat(group.status().message());
  if (static_cast<bool>(*group) != (mine >= 0))
    return mine < 0 ? "a group for no member" : "no group for a member";
  if (mine < 0) return "";
  if (group->global_ranks() != program_.members[static_cast<size_t>(mine)])
    return "the members are others, or in another order";
  groups_[mine] = *std::move(group);
  return "";
}

std::string Player::end(const Step& step) {
  // Operations on the group must have ended; others may go on.
  if (std::string wrong = settle(0); !wrong.empty()) return wrong;
  const absl::Status status = destroy_process_group(groups_.at(step.group));
  groups_.erase(step.group);
  return status.ok() ? "" : absl::StrCat(status.message());
}

}  // namespace distwrap::programs
