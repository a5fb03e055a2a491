#include "mesh/in_order.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/completion.h"

#include <utility>

namespace distwrap::mesh {
namespace {

// A redistribution that runs, or waits for its turn.
class Moving final : public comm::Completion {
 public:
  explicit Moving(std::vector<TensorView> outs) : outs_(std::move(outs)) {}
  using Completion::handle;

  void finish(absl::Status status, comm::CallbackThread& callbacks) {
    const Reason reason = status.ok() ? Reason::kNone : error_reason(status);
    end(status.ok()                   ? WorkState::kDone
        : reason == Reason::kTimedOut ? WorkState::kTimedOut
        : reason == Reason::kAborted  ? WorkState::kAborted
                                      : WorkState::kFailed,
        std::move(status), callbacks);
    release_task();
  }
  void drop() { release_task(); }

  // The thread that runs the steps also waits for them.
  bool poll() override { return false; }
  std::vector<TensorView> result() const override { return outs_; }
  absl::Status expired_wait() override {
    return base::make_error({.reason = Reason::kWaitExpired,
                             .what = "the redistribution has not ended",
                             .op = "wait",
                             .next_step = "wait again, or to its own limit"});
  }

 private:
  ~Moving() override = default;
  const std::vector<TensorView> outs_;
};

}  // namespace

std::shared_ptr<InOrder> InOrder::make() {
  const auto drop = [](InOrder* queue) {
    if (!queue->process_.is_of_parent()) delete queue;
  };
  return std::shared_ptr<InOrder>(new InOrder(), drop);
}

absl::Status InOrder::start_threads() {
  const base::MutexLock lock(mutex_);
  for (const auto& [thread, has] : {std::pair(&callbacks_, &has_callbacks_),
                                    std::pair(&moves_, &has_moves_)}) {
    if (*has) continue;
    if (absl::Status status = thread->start(); !status.ok()) return status;
    *has = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<Work> InOrder::start(std::function<absl::Status()> move,
                                    std::vector<TensorView> outs) {
  if (process_.is_of_parent())
    return base::make_error(base::of_parent("the mesh"));
  if (absl::Status status = start_threads(); !status.ok()) return status;
  auto* const moving = new Moving(std::move(outs));
  Work work = moving->handle();
  unended_.fetch_add(1, std::memory_order_acq_rel);
  const bool posted = moves_.post([this, moving, move = std::move(move)] {
    absl::Status status = base::guarded("redistribute", move);
    // A thread that has waited for the Work finds the queue without it.
    unended_.fetch_sub(1, std::memory_order_acq_rel);
    moving->finish(std::move(status), callbacks_);
  });
  if (posted) return work;
  unended_.fetch_sub(1, std::memory_order_acq_rel);
  moving->drop();
  return base::make_error({.reason = Reason::kOutOfMemory,
                           .what = "no memory to start a redistribution",
                           .op = "redistribute"});
}

}  // namespace distwrap::mesh
