// How the members of a group learn that all have ended it: each says so once,
// on the board where all of them meet there, else in the store.
//
// Until then connections stay, so that none ends under a peer that still reads.
// Threads: one at a time. Ownership: holds the store, or the lane.
//
//   Goodbye goodbye(store, "world/of/7/", size);
//   if (goodbye.say(deadline) || goodbye.heard_all(deadline).ok())
//     close_connections();
#ifndef DISTWRAP_SRC_GROUP_GOODBYE_H_
#define DISTWRAP_SRC_GROUP_GOODBYE_H_

#include "comm/board/lane.h"
#include "distwrap/deadline.h"
#include "distwrap/store.h"

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::group {

class Goodbye {
 public:
  // `prefix`: of keys that no other goodbye uses.
  Goodbye(std::shared_ptr<Store> store, std::string prefix, int size);
  explicit Goodbye(std::shared_ptr<comm::Lane> lane) : lane_(std::move(lane)) {}

  // Once. Whether this rank was the last. A store that cannot be reached keeps
  // nobody.
  bool say(Deadline deadline);
  // After `say`: OK when all have, kTimedOut at the deadline.
  absl::Status heard_all(Deadline deadline);
  // What stays in the store when not all hear each other.
  std::vector<std::string> keys() const;

 private:
  void leave(Deadline deadline);

  std::shared_ptr<comm::Lane> lane_;
  std::shared_ptr<Store> store_;
  std::string said_, all_, heard_;
  int size_ = 1;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GOODBYE_H_
