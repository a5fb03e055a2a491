// Groups that this rank has ended and other members have not: their connections
// stay until all have, or until the group's time has passed.
//
// Ranks may end their groups in any order, and none waits for another that is
// busy ending a different group. A thread, made when there is something to wait
// for, takes them down as their members come.
// Threads: any, after construction.
#ifndef DISTWRAP_SRC_GROUP_DEPARTURES_H_
#define DISTWRAP_SRC_GROUP_DEPARTURES_H_

#include "base/mutex.h"
#include "distwrap/deadline.h"
#include "group/goodbye.h"
#include "group/group_state.h"

#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace distwrap::group {

// A group that has been drained, with those below it, children before their
// parents and the group last.
struct Departure {
  std::vector<std::shared_ptr<GroupState>> groups;
  // Who may take over the keys that stay: the parent, else the world.
  std::vector<std::shared_ptr<GroupState>> heirs;
  Goodbye goodbye;
  Deadline until;
};

// Of a group that has been drained: its communicators, to their backends.
void give_back(const GroupState& group, Deadline deadline);

// Gives all of it back. `all_left`: no member asks for its keys any
// more, and they go; else an heir keeps them until it ends.
void take_down(const Departure& departure, bool all_left, Deadline deadline);

class Departures {
 public:
  Departures() = default;
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;
  ~Departures();

  bool empty() const;
  void add(Departure departure);
  // Ends the thread: what it has not taken down is the caller's. Nothing is
  // added afterwards.
  std::deque<Departure> stop();

 private:
  void run();

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // The front may be the thread's.
  std::deque<Departure> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_DEPARTURES_H_
