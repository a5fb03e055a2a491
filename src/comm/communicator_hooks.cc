// A communicator's calls when somebody is shown them.
#include "base/error.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"

#include <utility>

namespace distwrap::comm {

// Keeps the communicator while a call is in hooks, which may end the group.
class BackendCommunicator::Stay {
 public:
  explicit Stay(BackendCommunicator& communicator)
      : communicator_(communicator) {
    base::MutexLock lock(communicator_.mutex_);
    ++communicator_.staying_;
  }
  ~Stay() {
    if (is_last()) delete &communicator_;
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

 private:
  bool is_last() {
    base::MutexLock lock(communicator_.mutex_);
    return --communicator_.staying_ == 0 && communicator_.left_to_stay_;
  }

  BackendCommunicator& communicator_;
};

absl::StatusOr<Work> BackendCommunicator::run_shown(uint16_t kind, AnyCall call,
                                                    const CallOptions& options,
                                                    Visit visit) {
  PreparedOp prepared;
  if (absl::Status good = prepare(kind, call, options, visit.stream, &prepared);
      !good.ok())
    return labelled(options, std::move(good));
  const Deadline deadline = set_deadline(prepared.op, Deadline::now_ns());
  const auto shown = std::make_shared<HookRun>(identity_.hooks);
  show(prepared, *shown);
  shown->call().async = options.async;
  const Stay stay(*this);
  // Calls on guarded objects do not nest, and hooks may call.
  visit.slot.store(0, std::memory_order_release);
  if (absl::Status refused = shown->pre(); !refused.ok()) {
    const ErrorInfo info = shown->refusal(refused);
    refused_by_hook(info);
    absl::Status error = base::make_error(info);
    shown->post(error);
    return error;
  }
  absl::StatusOr<Work> result;
  {
    const CallGuard inside(this);
    visit.deadline_ns = deadline.is_never() ? 0 : deadline.ns();
    visit.seq = &shown->call().seq;
    absl::Status open = check_open(kind);
    result = open.ok() ? run_in_turn(kind, call, options, visit)
                       : labelled(options, std::move(open));
  }
  shown->post(result.status());
  if (result.ok() && (options.async || visit.stream != nullptr))
    shown->completes(*result);
  return result;
}

void BackendCommunicator::show(const PreparedOp& prepared, HookRun& run) const {
  run.describe(prepared.op, prepared.reduction, prepared.label,
               backend_->device());
}

void BackendCommunicator::refused_by_hook(ErrorInfo refusal) {
  // Who has failed is this rank.
  refusal.ranks.clear();
  work_expired(refusal);
}

}  // namespace distwrap::comm
