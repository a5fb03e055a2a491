#include "comm/joined_work.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

namespace distwrap::comm {

class JoinedWork::PartListener final : public Completion::Listener {
 public:
  explicit PartListener(JoinedWork& whole) : whole_(whole) {}
  void ended(CallbackThread& callbacks) override {
    whole_.part_ended(callbacks);
  }

 private:
  JoinedWork& whole_;  // lives until all parts have reported
};

JoinedWork::JoinedWork(std::vector<Work> parts)
    : parts_(std::move(parts)), running_(parts_.size() + 1) {}

Work JoinedWork::of(std::vector<Work> parts) {
  Listeners listeners(parts.size());
  auto* const whole = new JoinedWork(std::move(parts));
  Work work = whole->handle();
  try {
    const auto part = std::make_shared<PartListener>(*whole);
    std::fill(listeners.begin(), listeners.end(), part);
  } catch (const std::bad_alloc&) {
    whole->release_task();  // the joined work will not end
    throw;
  }
  // From here on nothing allocates: the parts know the joined work. No
  // callbacks have been added yet.
  CallbackThread unused;
  for (const Work& one : whole->parts_) {
    Completion* const cell = Completion::of(one);
    if (cell == nullptr || !cell->listen(listeners)) whole->part_ended(unused);
  }
  whole->part_ended(unused);
  return work;
}

void JoinedWork::part_ended(CallbackThread& callbacks) {
  if (running_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  WorkState state = WorkState::kDone;
  absl::Status error;
  for (const Work& part : parts_) {
    error = part.status();
    if (!error.ok() || part.state() == WorkState::kCaptured)
      state = part.state();
    if (!error.ok()) break;
  }
  end(state, std::move(error), callbacks);
  release_task();
}

bool JoinedWork::poll() {
  bool again = false;
  for (const Work& part : parts_) {
    Completion* const cell = Completion::of(part);
    if (cell != nullptr && !cell->ended()) again = cell->poll() || again;
  }
  return again;
}

void JoinedWork::run_here(Deadline deadline) {
  for (const Work& part : parts_) {
    Completion* const cell = Completion::of(part);
    if (cell != nullptr && !cell->ended()) cell->run_here(deadline);
  }
}

std::vector<TensorView> JoinedWork::result() const {
  std::vector<TensorView> all;
  for (const Work& part : parts_)
    for (const TensorView& view : part.result()) all.push_back(view);
  return all;
}

absl::Status JoinedWork::wait_stream(const Stream& stream) {
  for (const Work& part : parts_)
    if (absl::Status told = part.wait_stream(stream); !told.ok()) return told;
  return absl::OkStatus();
}

bool JoinedWork::can_cancel() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Work& part) {
    const Completion* const cell = Completion::of(part);
    return cell != nullptr && cell->can_cancel();
  });
}

absl::Status JoinedWork::cancel() {
  // Either all parts or none, unless the backend takes some meanwhile.
  if (!can_cancel()) return Completion::cancel();
  // The latest is the first to go: a collective with a later one behind it
  // keeps its number.
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    if (absl::Status taken = part->cancel(); !taken.ok()) return taken;
  return absl::OkStatus();
}

absl::Status JoinedWork::expired_wait() {
  return base::make_error(
      {.reason = Reason::kWaitExpired,
       .what = absl::StrCat(running_.load(std::memory_order_relaxed), " of ",
                            parts_.size(), " operations are still running"),
       .op = "wait",
       .next_step = "wait again, or to the operations' own limit"});
}

}  // namespace distwrap::comm
