// Ranks of a board without backends: threads here, each with its own mapping.
// Ranks that end are in tests/ranks.
#ifndef DISTWRAP_TESTS_UNIT_COMM_BOARD_BOARD_FIXTURE_H_
#define DISTWRAP_TESTS_UNIT_COMM_BOARD_BOARD_FIXTURE_H_

#include "base/mutex.h"
#include "comm/board/board.h"
#include "comm/board/group_board.h"
#include "comm/board/told_calls.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::comm {

inline constexpr dw_dtype kF32 = {2, 32, 1}, kI32 = {0, 32, 1};
// More than any of these takes, however busy the machine.
inline constexpr absl::Duration kLong = absl::Seconds(60);
// Many looks.
inline constexpr absl::Duration kLooks = absl::Milliseconds(300);

dw_op op_of(uint16_t kind, int64_t count, uint64_t seq);
// The operation of a caller that waits.
dw_op waiting(uint16_t kind, int64_t count, uint64_t seq);

// Tells of one finding, and lets a test wait for it.
class Ear final : public GroupBoard::Listener {
 public:
  void board_found(ErrorInfo found) override {
    base::MutexLock lock(mutex_);
    ++times_;
    found_ = std::move(found);
    heard_.notify_all();
  }
  void board_waits(GroupBoard::Stuck stuck) override {
    base::MutexLock lock(mutex_);
    waits_.push_back(std::move(stuck));
    heard_.notify_all();
  }
  void board_tells(std::string text) override {
    base::MutexLock lock(mutex_);
    for (GroupBoard* const other : others_) other->hear(text);
    told_.push_back(std::move(text));
    heard_.notify_all();
  }
  void board_hears(absl::string_view) override {}
  // The group boards that hear what is told.
  void connect(std::vector<GroupBoard*> others) {
    base::MutexLock lock(mutex_);
    others_ = std::move(others);
  }

  // The first text that was told of a waiting call, or an empty one.
  std::string told_waiting(absl::Duration patience) {
    base::MutexLock lock(mutex_);
    const Deadline deadline = Deadline::after(patience);
    do {
      for (const std::string& text : told_)
        if (ToldCalls::read(text)->inside != 0) return text;
    } while (heard_.wait_until(mutex_, deadline));
    return "";
  }
  std::vector<GroupBoard::Stuck> waits(size_t n, absl::Duration patience) {
    base::MutexLock lock(mutex_);
    const Deadline deadline = Deadline::after(patience);
    while (waits_.size() < n && heard_.wait_until(mutex_, deadline)) {
    }
    return waits_;
  }
  std::optional<ErrorInfo> wait(absl::Duration patience) {
    base::MutexLock lock(mutex_);
    const Deadline deadline = Deadline::after(patience);
    while (times_ == 0 && heard_.wait_until(mutex_, deadline)) {
    }
    return found_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar heard_;
  int times_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<ErrorInfo> found_ ABSL_GUARDED_BY(mutex_);
  std::vector<GroupBoard::Stuck> waits_ ABSL_GUARDED_BY(mutex_);
  std::vector<GroupBoard*> others_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

// One rank with its group of all.
struct Rank {
  std::shared_ptr<Watchdog> watchdog = *Watchdog::make();
  std::shared_ptr<Board> board;
  Ear ear;
  std::unique_ptr<GroupBoard> group_board;

  void call(const dw_op& op, absl::string_view label = "") {
    group_board->publish(op.kind, op, label);
  }
  ~Rank() {
    group_board.reset();
    if (board != nullptr) board->leave();
  }
};

// The ranks of a world in one group of all: on one host, or each on its host of
// the list.
std::vector<std::unique_ptr<Rank>> meet(
    int n, absl::Duration straggler = absl::InfiniteDuration(),
    const std::vector<std::string>& hosts = {});

}  // namespace distwrap::comm

#endif  // DISTWRAP_TESTS_UNIT_COMM_BOARD_BOARD_FIXTURE_H_
