// The board of a host: what its ranks show each other while they work, under
// every backend. From it come the error that names calls that differ, and the
// news that a rank has ended or stands still.
//
// Each rank writes its own area of shared memory (page.h) and reads the others'
// 40 times a second, 20 when it does nothing, on the session's one thread: a
// call costs what it takes to write one cache line. PyTorch's watchdogs compare
// over a store, after a timeout; NCCL's RAS asks over sockets when it is asked;
// MPI does not compare. When an operation began to wait is known from the
// looks, not from its call. Threads: any. Ownership: shared by the session and
// its communicators.
//
//   absl::StatusOr<Door> door = Door::open();            // told to the others
//   auto board = Board::meet(plan, *std::move(door), offers, deadline);
//   auto lane = Lane::open(board, {...});                // for each group
//   lane->publish(op.kind, op, label);                   // at each collective
#ifndef DISTWRAP_SRC_COMM_BOARD_BOARD_H_
#define DISTWRAP_SRC_COMM_BOARD_BOARD_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
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

class Lane;

// What a rank tells all others at start-up.
struct BoardOffer {
  std::string host, door;  // empty: it takes no part
  uint64_t token = 0;
};

class Board final : private Watchdog::Watch,
                    public std::enable_shared_from_this<Board> {
 public:
  struct Plan {
    int rank = 0;  // of the world
    absl::Duration heartbeat = absl::Seconds(5);
    std::shared_ptr<Watchdog> watchdog;
    // After this a rank that waits says for whom.
    absl::Duration straggler = absl::InfiniteDuration();
    // For people.
    uint64_t job = 0;
    int world_size = 0;
    std::string host = {};
  };

  // Between the ranks of a host, all of which call it. `offers` are of all
  // ranks of the world, by rank. Null when no other rank is on this host. The
  // lowest rank does not wait for the others, which get the memory from it;
  // null when it has given up before. Errors: kTimedOut naming it,
  // kOutOfMemory, kResourceLimit.
  static absl::StatusOr<std::shared_ptr<Board>> meet(
      Plan plan, Door door, absl::Span<const BoardOffer> offers,
      Deadline deadline);
  ~Board() override;

  // Tells the others that this rank takes its leave. No lane is used after it.
  void leave();

  // A page for one more lane, there as long as this lives.
  class Room;
  // For a group of these ranks, of the world, before anything of it is built:
  // so that its lane finds its page. Empty where it needs none, as without a
  // board. Errors: kOutOfMemory.
  static absl::StatusOr<Room> make_room(const std::shared_ptr<Board>& board,
                                        absl::Span<const int> global_ranks);

 private:
  friend class Lane;
  enum class Fate : uint8_t { kWell, kEnded, kSilent };

  // Another rank of this host.
  struct Neighbour {
    int rank;     // of the world
    size_t area;  // its place in the memory
    Fate fate = Fate::kWell;
    uint64_t beats = 0;
    int64_t silent_ns = 0;  // while this rank itself ran
  };

  Board(Plan plan, std::unique_ptr<HostMemory> memory, std::vector<int> ranks);
  absl::Status enter();

  // Watchdog::Watch
  Deadline expired() override;
  void look_around() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void look_at(Neighbour& neighbour, int64_t passed_ns);
  // Runs `body` off the lock; the lane stays as long.
  template <class Body>
  void tell(std::shared_ptr<Board>& self, Lane& lane, const Body& body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void take_leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FrontPage& front(size_t area) const { return memory_->area(area).front; }

  // Makes that many pages of lanes really there; they stay.
  absl::Status grow_to(size_t pages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For lanes: the place of a page, and which it is; -1 when none is left.
  int add(Lane& lane, uint64_t uid);
  void remove(Lane& lane, int place);
  void wait_until_untold(const Lane& lane)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Neighbour* neighbour(int rank) const;
  // A group has failed on this rank; any thread. And on another.
  void break_off(uint64_t uid);
  std::optional<int64_t> broken_since(const Neighbour& neighbour,
                                      uint64_t uid) const;

  const base::ForkMark process_;
  const Plan plan_;
  const std::unique_ptr<HostMemory> memory_;
  size_t own_ = 0;
  const bool crowded_;  // more ranks on this host than processors

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Neighbour> neighbours_;  // constant but for what was seen
  // Until all others of the host have the memory, or the start is over.
  std::optional<Door> door_ ABSL_GUARDED_BY(mutex_);
  std::vector<HostMember> guests_ ABSL_GUARDED_BY(mutex_);
  Deadline serves_until_ ABSL_GUARDED_BY(mutex_) = Deadline::never();
  std::vector<Lane*> lanes_ ABSL_GUARDED_BY(mutex_);
  size_t pages_ ABSL_GUARDED_BY(mutex_) = 0;  // of lanes, the first ones
  size_t rooms_ ABSL_GUARDED_BY(mutex_) = 0;
  Lane* telling_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread::id watching_ ABSL_GUARDED_BY(mutex_);
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Life> life_;       // of the watching thread; null: none
  bool lives_ = false;               // it holds it
  std::atomic<uint64_t> broken_{0};  // how many groups have failed here
  int64_t looked_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration pace_ ABSL_GUARDED_BY(mutex_);  // from look to look
};

class Board::Room {
 public:
  Room() = default;
  explicit Room(std::shared_ptr<Board> board) : board_(std::move(board)) {}
  ~Room();
  Room(Room&& other) noexcept : board_(std::move(other.board_)) {}
  Room& operator=(Room&&) = delete;

 private:
  std::shared_ptr<Board> board_;  // null: of nothing
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_BOARD_H_
