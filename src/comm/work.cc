#include "distwrap/work.h"

#include "base/error.h"
#include "comm/completion.h"
#include "comm/joined_work.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <utility>

namespace distwrap {
namespace {

using comm::Completion;

// Wakes who waits for one of several.
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

// The first that has ended; the number of works for none.
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
  return cell_ == nullptr ? absl::OkStatus()
                          : cell_->wait(Deadline::after(timeout));
}

absl::Status Work::wait(Deadline deadline) const {
  return cell_ == nullptr ? absl::OkStatus() : cell_->wait(deadline);
}

absl::Status Work::wait_stream(const Stream& stream) const {
  if (cell_ != nullptr) return cell_->wait_stream(stream);
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what = "an operation that has ended with its call needs no stream to "
               "wait for it",
       .op = "wait_stream",
       .next_step = "call wait, which blocks the host"});
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
  // A handle without an operation has nothing to keep an order by.
  (cell_ != nullptr ? *this : all({Work()})).cell_->on_done(std::move(f));
}

absl::StatusOr<int> Work::event_fd() const {
  if (cell_ != nullptr) return cell_->event_fd();
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what = "a call that was synchronous has no event",
       .op = "event_fd",
       .next_step = "look at test() first, or call with async"});
}

absl::Status Work::cancel() const {
  const bool has_ended = cell_ == nullptr || cell_->ended();
  return base::make_error(
      {.reason = Reason::kAlreadySubmitted,
       .what = has_ended ? "the operation has ended"
                         : "the backend has the operation already",
       .op = "cancel",
       .next_step = has_ended ? "look at its status"
                              : "wait for it, or abort the group"});
}

absl::StatusOr<size_t> wait_any(absl::Span<const Work> works,
                                Deadline deadline) {
  if (works.empty())
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = "there is no Work to wait for",
                             .op = "wait_any",
                             .next_step = "give at least one"});
  if (const size_t ended = first_ended(works); ended < works.size())
    return ended;
  const auto bell = std::make_shared<Bell>();
  size_t listening = 0;
  while (listening < works.size() &&
         Completion::of(works[listening])->listen(bell))
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
}

absl::Status wait_all(absl::Span<const Work> works, Deadline deadline) {
  absl::Status late;
  for (const Work& work : works) {
    absl::Status status = work.wait(deadline);
    if (late.ok() && error_reason(status) == Reason::kWaitExpired)
      late = std::move(status);
  }
  for (const Work& work : works)
    if (absl::Status status = work.status(); !status.ok()) return status;
  return late;
}

}  // namespace distwrap
