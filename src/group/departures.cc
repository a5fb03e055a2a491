#include "group/departures.h"

#include "base/error.h"
#include "base/quiet_thread.h"

#include <string>
#include <utility>

namespace distwrap::group {
namespace {

// Between two looks at whether to stop.
constexpr absl::Duration kLook = absl::Milliseconds(10);
// For a backend to let go of a communicator without work.
constexpr absl::Duration kLetGo = absl::Milliseconds(50);

// What failures have left in the store.
std::vector<std::string> keys_of(GroupState& group) {
  std::vector<std::string> keys = group.left_behind();
  for (std::string& key : group.failure_keys()) keys.push_back(std::move(key));
  return keys;
}

// To the first that has not ended itself.
void bequeath(const Departure& departure,
              const std::vector<std::string>& keys) {
  for (const auto& heir : departure.heirs)
    if (heir->leave_behind(keys)) return;
}

}  // namespace

void give_back(const GroupState& group, Deadline deadline) {
  for (auto channel = group.channels().rbegin();
       channel != group.channels().rend(); ++channel)
    channel->communicator->destroy(deadline);
}

void take_down(const Departure& departure, bool all_left, Deadline deadline) {
  for (const auto& group : departure.groups) {
    if (all_left) {
      for (const std::string& key : group->left_behind())
        if (!group->store()->delete_key(key, deadline).ok()) break;
    } else {
      bequeath(departure, keys_of(*group));
    }
    give_back(*group, deadline);
  }
  if (!all_left) bequeath(departure, departure.goodbye.keys());
}

bool Departures::empty() const {
  base::MutexLock lock(mutex_);
  return waiting_.empty();
}

void Departures::add(Departure departure) {
  base::MutexLock lock(mutex_);
  waiting_.push_back(std::move(departure));
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = base::quiet_thread([this] { run(); });
}

void Departures::run() {
  for (;;) {
    Departure* front;
    {
      base::MutexLock lock(mutex_);
      while (waiting_.empty() && !stop_) changed_.wait(mutex_);
      if (stop_) return;
      front = &waiting_.front();  // stays where it is: others go to the back
    }
    const absl::Status heard = front->goodbye.heard_all(
        Deadline::earlier(front->until, Deadline::after(kLook)));
    const bool still = error_reason(heard) == Reason::kTimedOut;
    if (still && !front->until.passed()) continue;
    take_down(*front, heard.ok(), Deadline::after(kLetGo));
    base::MutexLock lock(mutex_);
    waiting_.pop_front();
  }
}

Departures::~Departures() {
  for (const Departure& departure : stop())
    take_down(departure, false, Deadline::after(kLetGo));
}

std::deque<Departure> Departures::stop() {
  std::thread thread;
  {
    base::MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  base::MutexLock lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace distwrap::group
