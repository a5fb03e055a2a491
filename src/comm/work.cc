#include "distwrap/work.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/completion.h"
#include "comm/joined_work.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <utility>

namespace distwrap {
namespace {

using comm::Completion;

// Wakes a thread that waits for one of several works.
class Bell final : public Completion::Listener {
 public:
  void ended(comm::CallbackThread& /*callbacks*/) override {
    base::MutexLock lock(mutex_);
    rung_ = true;
    changed_.notify_all();
  }
  void wait(Deadline deadline) {
    base::MutexLock lock(mutex_);
    while (!rung_ && changed_.wait_until(mutex_, deadline)) {
    }
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool rung_ ABSL_GUARDED_BY(mutex_) = false;
};

// The index of the first work that has ended; the number of works if none has.
size_t first_ended(absl::Span<const Work> works) {
  size_t i = 0;
  while (i < works.size()) {
    const Completion* const cell = Completion::of(works[i]);
    if (cell == nullptr || cell->ended()) break;
    ++i;
  }
  return i;
}

absl::Status none_ended(size_t works) {
  return base::make_error(
      {.reason = Reason::kWaitExpired,
       .what = absl::StrCat("all ", works, " operations are still running"),
       .op = "wait_any",
       .next_step = "wait again, or to the operations' own limit"});
}

}  // namespace

Work::Work(const Work& other) : cell_(other.cell_) {
  if (cell_ != nullptr) cell_->acquire();
}

Work& Work::operator=(const Work& other) {
  Work copy(other);
  std::swap(cell_, copy.cell_);
  return *this;
}

void Work::release() { cell_->release(); }

Work Work::all(std::vector<Work> works) {
  if (works.empty()) return Work();
  return comm::JoinedWork::of(std::move(works));
}

absl::Status Work::wait(absl::Duration timeout) const {
  return wait(Deadline::after(timeout));
}

absl::Status Work::wait(Deadline deadline) const try {
  return cell_ == nullptr ? absl::OkStatus() : cell_->wait(deadline);
} catch (...) {
  return base::error_of_exception("wait");
}

absl::Status Work::wait_stream(const Stream& stream) const try {
  if (cell_ != nullptr) return cell_->wait_stream(stream);
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what =
           "the operation ended within its call, so no stream can wait for it",
       .op = "wait_stream",
       .next_step = "call wait, which blocks the host"});
} catch (...) {
  return base::error_of_exception("wait_stream");
}

bool Work::test() const {
  if (cell_ == nullptr || cell_->ended()) return true;
  cell_->poll();
  return cell_->ended();
}

WorkState Work::state() const {
  return cell_ == nullptr ? WorkState::kDone : cell_->state();
}

absl::Status Work::status() const {
  return cell_ == nullptr ? absl::OkStatus() : cell_->status();
}

std::vector<TensorView> Work::result() const {
  return cell_ == nullptr ? std::vector<TensorView>() : cell_->result();
}

uint64_t Work::seq() const { return cell_ == nullptr ? 0 : cell_->seq(); }

void Work::on_done(std::function<void(const absl::Status&)> f) const {
  // A handle without an operation has no cell that could run callbacks, so a
  // joined work gives it one.
  (cell_ != nullptr ? *this : all({Work()})).cell_->on_done(std::move(f));
}

absl::StatusOr<int> Work::event_fd() const try {
  if (cell_ != nullptr) return cell_->event_fd();
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what = "a call that was synchronous has no event",
       .op = "event_fd",
       .next_step = "check test() first, or make the call with async"});
} catch (...) {
  return base::error_of_exception("event_fd");
}

absl::Status Work::cancel() const try {
  if (cell_ != nullptr) return cell_->cancel();
  return base::make_error({.reason = Reason::kAlreadySubmitted,
                           .what = "the operation has ended",
                           .op = "cancel",
                           .next_step = "look at its status"});
} catch (...) {
  return base::error_of_exception("cancel");
}

absl::StatusOr<size_t> wait_any(absl::Span<const Work> works,
                                Deadline deadline) try {
  if (works.empty())
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = "there is no Work to wait for",
                             .op = "wait_any",
                             .next_step = "give at least one"});
  if (const size_t ended = first_ended(works); ended < works.size())
    return ended;
  const auto bell = std::make_shared<Bell>();
  Completion::Listeners listeners(works.size(), bell);
  size_t listening = 0;
  while (listening < works.size() &&
         Completion::of(works[listening])->listen(listeners))
    ++listening;
  size_t ended;
  for (comm::Naps naps;;) {
    bool again = false;
    for (const Work& work : works)
      if (Completion* const cell = Completion::of(work); !cell->ended())
        again = cell->poll() || again;
    ended = first_ended(works);
    if (ended < works.size() || deadline.passed()) break;
    bell->wait(naps.next(again, deadline));
  }
  for (size_t i = 0; i < listening; ++i)
    Completion::of(works[i])->unlisten(bell.get());
  if (ended == works.size()) return none_ended(works.size());
  return ended;
} catch (...) {
  return base::error_of_exception("wait_any");
}

absl::Status wait_all(absl::Span<const Work> works, Deadline deadline) try {
  absl::Status late;
  for (const Work& work : works) {
    absl::Status status = work.wait(deadline);
    if (late.ok() && error_reason(status) == Reason::kWaitExpired)
      late = std::move(status);
  }
  for (const Work& work : works)
    if (absl::Status status = work.status(); !status.ok()) return status;
  return late;
} catch (...) {
  return base::error_of_exception("wait_all");
}

}  // namespace distwrap
