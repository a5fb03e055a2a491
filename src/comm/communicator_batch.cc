// A communicator's part in a batch.
#include "base/error.h"
#include "comm/call_guard.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <sched.h>
#include <utility>

namespace distwrap::comm {
namespace {

// Makes a borrowed array the operation's own.
void keep(const int64_t** array, int size, std::vector<int64_t>* own) {
  if (*array == nullptr) return;
  own->assign(*array, *array + size);
  *array = own->data();
}

}  // namespace

absl::Status BackendCommunicator::prepare(uint16_t kind, const AnyCall& call,
                                          const CallOptions& options,
                                          PreparedOp* prepared) const {
  const CheckedCall checked =
      check_any_call(kind, call, identity_.rank, identity_.size, capabilities_);
  if (checked.fault != Fault::kNone) return refuse(checked.fault, kind, call);
  if (options.timeout.has_value() && *options.timeout <= absl::ZeroDuration())
    return refuse_timeout(kind, *options.timeout);
  dw_op& op = prepared->op;
  fill_op(kind, call, checked.in_place,
          timeout_ns_.load(std::memory_order_relaxed), &op);
  prepared->own_scale =
      fill_rest(kind, call, &prepared->scale, &prepared->lists, &op);
  prepared->label = std::string(options.label);
  if (options.timeout.has_value())
    op.timeout_ns = timeout_ns_of(*options.timeout);
  keep(&op.in.counts, identity_.size, &prepared->in_counts);
  keep(&op.in.displs, identity_.size, &prepared->in_displs);
  keep(&op.out.counts, identity_.size, &prepared->out_counts);
  keep(&op.out.displs, identity_.size, &prepared->out_displs);
  return absl::OkStatus();
}

absl::Status BackendCommunicator::check_open(uint16_t kind) const {
  if (life_.load(std::memory_order_seq_cst) == Life::kOpen)
    return absl::OkStatus();
  return refuse_closed(kind);
}

absl::StatusOr<std::vector<Work>> BackendCommunicator::submit_batch(
    absl::Span<const BatchItem> items) {
  std::vector<Work> works;
  std::vector<WorkCell*> cells;
  std::vector<dw_group_item> group;
  // Takes back what was boarded, latest first; the error of the first item.
  const auto unwind = [&](int32_t code, const dw_error& error) {
    absl::Status status;
    for (size_t i = cells.size(); i-- > 0;) {
      BackendCommunicator& owner = *items[i].communicator;
      const dw_op& op = items[i].prepared->op;
      if (is_refusal(code)) owner.unstamp(op);
      ErrorInfo info = owner.work_failed(op.kind, op.seq, code, error);
      info.label = items[i].prepared->label;
      cells[i]->land(WorkState::kFailed, info);
      status = base::make_error(info);
    }
    return status;
  };
  for (const BatchItem& item : items) {
    BackendCommunicator& owner = *item.communicator;
    dw_op& op = item.prepared->op;
    // From `board` on the flight keeps the communicator.
    const CallGuard inside(&owner);
    if (absl::Status open = owner.check_open(op.kind); !open.ok()) {
      // Refused, as far as the other groups are concerned: they stay whole.
      unwind(DW_INVALID_ARGUMENT, dw_error{}).IgnoreError();
      return open;
    }
    if (op_shape(op.kind).collective()) owner.stamp(&op);
    cells.push_back(
        owner.board(op, item.prepared->own_scale, item.prepared->label));
    works.push_back(cells.back()->handle());
    group.push_back({owner.comm_, &op, cells.back()->abi()});
  }
  if (items.empty()) return works;
  const BackendInstance& backend = *items.front().communicator->backend_;
  dw_error error{};
  error.peer = -1;
  int32_t code;
  for (;;) {
    code = backend.api().submit_group(backend.backend(), group.data(),
                                      group.size(), &error);
    if (code != DW_AGAIN) break;
    // No resources yet. The deadline of an item ends this, by an abort.
    const auto over = [](const BatchItem& item) {
      return item.communicator->life_.load(std::memory_order_acquire) !=
             Life::kOpen;
    };
    if (std::any_of(items.begin(), items.end(), over)) {
      error.reason = DW_REASON_ABORTED;
      code = DW_ABORTED;
      break;
    }
    backend.progress();
    sched_yield();
  }
  if (code == DW_OK) return works;
  if (code != DW_DONE) return unwind(code, error);
  for (WorkCell* const cell : cells) cell->land(WorkState::kDone);
  return works;
}

}  // namespace distwrap::comm
