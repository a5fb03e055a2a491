#include "group/group_state.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/op_build.h"
#include "group/device_name.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace distwrap::group {
namespace {

comm::BackendCommunicator* default_of(const std::vector<Channel>& channels) {
  for (const Channel& channel : channels)
    if (channel.device_type == kCpu.type) return channel.communicator.get();
  return channels.front().communicator.get();
}

}  // namespace

GroupState::GroupState(GroupParts parts)
    : parts_(std::move(parts)),
      ranks_(parts_.global_ranks),
      spelled_(spelled_backends(parts_.choices)),
      first_type_(parts_.channels.front().device_type),
      first_(parts_.channels.front().communicator.get()),
      default_(default_of(parts_.channels)),
      timeout_(comm::timeout_ns_of(parts_.timeout)) {}

comm::BackendCommunicator* GroupState::find_other(int32_t device_type) const {
  for (const Channel& channel : parts_.channels)
    if (channel.device_type == device_type) return channel.communicator.get();
  return nullptr;
}

absl::Duration GroupState::timeout() const {
  const int64_t ns = timeout_.load(std::memory_order_relaxed);
  return ns == 0 ? absl::InfiniteDuration() : absl::Nanoseconds(ns);
}

void GroupState::set_timeout(absl::Duration timeout) {
  timeout_.store(comm::timeout_ns_of(timeout), std::memory_order_relaxed);
  for (const Channel& channel : parts_.channels)
    channel.communicator->set_timeout(timeout);
}

std::string GroupState::key(absl::string_view text) const {
  return absl::StrCat(parts_.key_prefix, text);
}

std::vector<std::string> GroupState::failure_keys() const {
  std::vector<std::string> keys;
  for (size_t i = 0; i < channels().size(); ++i)
    keys.push_back(key(absl::StrCat(i, "/", kFailureKey)));
  return keys;
}

std::vector<std::shared_ptr<GroupState>> GroupState::children() const {
  base::MutexLock lock(mutex_);
  return children_;
}

bool GroupState::add_child(std::shared_ptr<GroupState> child) {
  base::MutexLock lock(mutex_);
  if (ended_) return false;
  children_.push_back(std::move(child));
  return true;
}

void GroupState::remove_child(const GroupState* child) {
  base::MutexLock lock(mutex_);
  children_.erase(
      std::remove_if(children_.begin(), children_.end(),
                     [&](const auto& held) { return held.get() == child; }),
      children_.end());
}

uint64_t GroupState::next_call() {
  base::MutexLock lock(mutex_);
  return calls_++;
}

void GroupState::waits_in(std::string call) {
  base::MutexLock lock(mutex_);
  waits_in_ = std::move(call);
}

std::string GroupState::waits_in() const {
  base::MutexLock lock(mutex_);
  return waits_in_;
}

bool GroupState::leave_behind(const std::vector<std::string>& keys) {
  base::MutexLock lock(mutex_);
  if (!left_behind_.has_value()) return false;
  left_behind_->insert(left_behind_->end(), keys.begin(), keys.end());
  return true;
}

std::vector<std::string> GroupState::left_behind() {
  base::MutexLock lock(mutex_);
  return std::exchange(left_behind_, std::nullopt)
      .value_or(std::vector<std::string>());
}

uint64_t GroupState::begin_child(uint64_t which) {
  base::MutexLock lock(mutex_);
  return generations_[which]++;
}

std::optional<std::vector<std::shared_ptr<GroupState>>> GroupState::end() {
  base::MutexLock lock(mutex_);
  if (ended_) return std::nullopt;
  ended_ = true;
  return std::exchange(children_, {});
}

bool GroupState::ended() const {
  base::MutexLock lock(mutex_);
  return ended_;
}

absl::Status GroupState::no_communicator(Device device,
                                         absl::string_view call) const try {
  std::string available;
  for (const Channel& channel : parts_.channels)
    absl::StrAppend(&available, available.empty() ? "" : ", ",
                    device_name(channel.device_type));
  return base::make_error(
      {.reason = Reason::kNoCommunicator,
       .what =
           absl::StrCat("the group has no communicator for device type '",
                        device_name(device.type), "'. Available: ", available),
       .op = std::string(call),
       .group = name(),
       .my_rank = rank(),
       .group_size = size(),
       .next_step = "move the tensor, or name a backend for that device"});
} catch (...) {
  return base::error_of_exception("communicator");
}

}  // namespace distwrap::group
