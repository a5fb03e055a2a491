// The close barrier: the members of a group tell each other once that they have
// ended it, on the board if all of them meet there, else in the store.
//
// Until then connections stay open, so that none breaks under a peer that still
// reads from it.
// Threads: one at a time. Ownership: holds the store, or the group page.
//
//   CloseBarrier close_barrier(store, "world/of/7/", size);
//   if (close_barrier.say(deadline) || close_barrier.heard_all(deadline).ok())
//     close_connections();
#ifndef DISTWRAP_SRC_GROUP_CLOSE_BARRIER_H_
#define DISTWRAP_SRC_GROUP_CLOSE_BARRIER_H_

#include "comm/board/group_board.h"
#include "distwrap/deadline.h"
#include "distwrap/store.h"

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::group {

class CloseBarrier {
 public:
  // `prefix` is used by no other close barrier.
  CloseBarrier(std::shared_ptr<Store> store, std::string prefix, int size);
  explicit CloseBarrier(std::shared_ptr<comm::GroupBoard> group_board)
      : board_(std::move(group_board)) {}

  // Called once; returns whether this rank was the last. A store that cannot be
  // reached delays no rank.
  bool say(Deadline deadline);
  // Called after `say`. OK when all ranks have said it, kTimedOut at the
  // deadline.
  absl::Status heard_all(Deadline deadline);
  // The keys that remain in the store if the ranks do not all hear each other.
  std::vector<std::string> keys() const;

 private:
  void leave(Deadline deadline);

  std::shared_ptr<comm::GroupBoard> board_;
  std::shared_ptr<Store> store_;
  std::string said_, all_, heard_;
  int size_ = 1;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_CLOSE_BARRIER_H_
