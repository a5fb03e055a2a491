// The board of a host: what its ranks show each other while they work, under
// every backend. It yields the error that names calls that differ, and the news
// that a rank has ended or is stopped.
//
// Each rank writes its own area of shared memory (page.h) and reads the others'
// 40 times a second, 20 when it does nothing, on the session's one thread: a
// call costs what it takes to write one cache line. PyTorch's watchdogs compare
// over a store, after a timeout; NCCL's RAS asks over sockets when it is asked;
// MPI does not compare. The looks, and not the calls, tell since when an
// operation has been waiting.
//
// Threads: any. Ownership: shared by the session and its communicators.
//
//   absl::StatusOr<DescriptorHandover> handover = DescriptorHandover::open();
//   ... tell its name to the other ranks ...
//   auto board = Board::meet(plan, *std::move(handover), offers, deadline);
//   auto group_board = GroupBoard::open(board, {...});  // for each group
//   group_board->publish(op.kind, op, label);  // at each collective
#ifndef DISTWRAP_SRC_COMM_BOARD_BOARD_H_
#define DISTWRAP_SRC_COMM_BOARD_BOARD_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/board/far_memory.h"
#include "comm/board/handover.h"
#include "comm/board/host_memory.h"
#include "comm/watchdog.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::comm {

class GroupBoard;

// One rank's message to all others at start-up.
struct BoardOffer {
  std::string host, handover;  // empty: it takes no part
  uint64_t token = 0;
};

class Board final : private Watchdog::Watch,
                    public std::enable_shared_from_this<Board> {
 public:
  struct Plan {
    int rank = 0;  // in the world
    absl::Duration heartbeat = absl::Seconds(5);
    std::shared_ptr<Watchdog> watchdog;
    // After waiting this long, a rank reports for whom it waits.
    absl::Duration straggler = absl::InfiniteDuration();
    // The job's identity, shown to users.
    uint64_t job = 0;
    int world_size = 0;
    std::string host = {};
    int guard = 0;  // GuardMode of the session
    // Whether ranks of other hosts tell what they call.
    bool hears_hosts = false;
  };

  // Called by all ranks of a host. `offers`: those of all ranks of the world,
  // by rank. Null when no other rank is on this host or is heard. The lowest
  // rank hands the memory to the others and does not wait for them; the result
  // is null if it has given up before. Errors: kTimedOut naming the lowest
  // rank, kOutOfMemory, kResourceLimit.
  static absl::StatusOr<std::shared_ptr<Board>> meet(
      Plan plan, DescriptorHandover handover,
      absl::Span<const BoardOffer> offers, Deadline deadline);
  ~Board() override;

  // Tells the others that this rank leaves. No group page is used afterwards.
  void leave();

  // A rank of another host has left, or is lost. Any thread.
  void far_rank_ended(int rank, bool is_lost);

  // The ranks of this host that have ended and had not left. Any thread.
  struct Ended {
    int rank;  // in the world
    int64_t process;
  };
  std::vector<Ended> look_for_ended();

  // Keeps a page reserved for one group page, as long as the Room lives.
  class Room;
  // Reserves the page of a new group of `members` (ranks of the world) before
  // any part of the group is built. Empty where no page is needed, as without a
  // board. Errors: kOutOfMemory.
  static absl::StatusOr<Room> make_room(const std::shared_ptr<Board>& board,
                                        absl::Span<const int> global_ranks);

 private:
  friend class GroupBoard;
  enum class Fate : uint8_t { kWell, kEnded, kSilent };

  // Another rank of this host.
  struct Neighbour {
    int rank;     // in the world
    size_t area;  // the rank's place in the memory
    Fate fate = Fate::kWell;
    uint64_t beats = 0;
    int64_t silent_ns = 0;  // while this rank itself ran
    // The part of it until a debugger was last seen to hold the rank.
    int64_t excused_ns = 0;
  };

  Board(Plan plan, std::unique_ptr<HostMemory> memory, std::vector<int> ranks);
  absl::Status enter();

  // Watchdog::Watch
  Deadline expired() override;
  void look_around() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void look_at(Neighbour& neighbour, int64_t passed_ns);
  // Runs `body` without the lock; the group page stays meanwhile.
  template <class Body>
  void tell(std::shared_ptr<Board>& self, GroupBoard& group_board,
            const Body& body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void take_leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FrontPage& front(size_t area) const { return memory_->area(area).front; }

  // Reserves memory for the first `pages` group pages; it stays reserved.
  absl::Status grow_to(size_t pages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For GroupBoard: takes a free group page and returns its index; -1 when none
  // is free.
  int add(GroupBoard& group_board, uint64_t uid);
  void remove(GroupBoard& group_board, int place);
  void wait_until_told(const GroupBoard& group_board)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Neighbour* neighbour(int rank) const;
  // Whether a group of these ranks of the world has a group page.
  bool shows(absl::Span<const int> global_ranks) const;
  // Notes that a group has failed on this rank. Any thread.
  void break_off(uint64_t uid);
  std::optional<int64_t> broken_since(const Neighbour& neighbour,
                                      uint64_t uid) const;

  const base::ForkMark process_;
  const Plan plan_;
  const std::unique_ptr<HostMemory> memory_;
  // Null unless ranks of other hosts tell what they call.
  const std::shared_ptr<FarMemory> far_memory_;
  size_t own_ = 0;
  const bool oversubscribed_;  // more ranks on this host than processors

  base::Mutex mutex_;
  base::CondVar changed_;
  // constant except for what this rank last saw
  std::vector<Neighbour> neighbours_;
  // Kept until all other ranks of the host have the memory, or the start is
  // over.
  std::optional<DescriptorHandover> handover_ ABSL_GUARDED_BY(mutex_);
  std::vector<HostMember> guests_ ABSL_GUARDED_BY(mutex_);
  Deadline serves_until_ ABSL_GUARDED_BY(mutex_) = Deadline::never();
  std::vector<GroupBoard*> groups_ ABSL_GUARDED_BY(mutex_);
  size_t pages_ ABSL_GUARDED_BY(mutex_) =
      0;  // the number of first group pages that are backed
  size_t rooms_ ABSL_GUARDED_BY(mutex_) = 0;
  GroupBoard* telling_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread::id watching_ ABSL_GUARDED_BY(mutex_);
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<LivenessMutex>
      liveness_;                     // held by the watching thread; null: none
  bool lives_ = false;               // whether the thread holds it
  std::atomic<uint64_t> broken_{0};  // how many groups have failed here
  int64_t looked_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration pace_ ABSL_GUARDED_BY(mutex_);  // interval between two looks
};

class Board::Room {
 public:
  Room() = default;
  explicit Room(std::shared_ptr<Board> board) : board_(std::move(board)) {}
  ~Room();
  Room(Room&& other) noexcept : board_(std::move(other.board_)) {}
  Room& operator=(Room&&) = delete;

 private:
  std::shared_ptr<Board> board_;  // null: nothing is reserved
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_BOARD_H_
