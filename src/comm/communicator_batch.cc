// A communicator's part in a batch.
#include "base/error.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"

#include <algorithm>
#include <functional>
#include <map>
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

// The part of a batch in all its communicators: beside other calls, and with
// the turn in each while it starts. Turns are taken in the order of addresses,
// so batches of several threads do not wait for each other in a circle.
class BackendCommunicator::BatchVisit {
 public:
  BatchVisit() = default;
  ~BatchVisit() { leave(); }
  BatchVisit(const BatchVisit&) = delete;
  BatchVisit& operator=(const BatchVisit&) = delete;

  absl::Status enter(absl::Span<const BatchItem> items);
  void leave();

 private:
  struct Place {
    const dw_op* first;
    bool collectives;
  };
  std::map<BackendCommunicator*, Place, std::less<>> places_;
  std::vector<BackendCommunicator*> entered_, turns_;
};

absl::Status BackendCommunicator::BatchVisit::enter(
    absl::Span<const BatchItem> items) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const int64_t now_ns = Deadline::now_ns();
  for (const BatchItem& item : items) {
    dw_op& op = item.prepared->op;
    set_deadline(op, now_ns);  // the time runs from here
    Place& place =
        places_.try_emplace(item.communicator, Place{&op, false}).first->second;
    place.collectives |= op_shape(op.kind).collective();
  }
  for (const auto& [communicator, place] : places_) {
    const dw_op& op = *place.first;
    const Deadline deadline = op.deadline_ns == 0
                                  ? Deadline::never()
                                  : Deadline::at_ns(op.deadline_ns);
    if (communicator->seat_.enter_beside(place.collectives, deadline) ==
        Seat::Place::kNone)
      return communicator->refuse_place(op.kind, op.timeout_ns);
    entered_.push_back(communicator);
  }
  for (const auto& [communicator, place] : places_) {
    communicator->seat_.turns().lock();
    turns_.push_back(communicator);
  }
  return absl::OkStatus();
}

void BackendCommunicator::BatchVisit::leave() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (BackendCommunicator* const one : turns_) one->seat_.turns().unlock();
  for (BackendCommunicator* const one : entered_) one->seat_.leave();
  turns_.clear();
  entered_.clear();
}

absl::Status BackendCommunicator::prepare(uint16_t kind, const AnyCall& call,
                                          const CallOptions& options,
                                          const Stream* stream,
                                          PreparedOp* prepared) const {
  if (stream != nullptr)
    if (absl::Status fits = check_stream(op_shape(kind).name, *stream);
        !fits.ok())
      return fits;
  const CheckedCall checked =
      check_any_call(kind, call, identity_.rank, identity_.size, capabilities_);
  if (checked.fault != Fault::kNone) return refuse(checked.fault, kind, call);
  if (options.timeout.has_value() && *options.timeout <= absl::ZeroDuration())
    return refuse_timeout(kind, *options.timeout);
  dw_op& op = prepared->op;
  fill_op(kind, call, checked.in_place,
          timeout_ns_.load(std::memory_order_relaxed), &op);
  prepared->own_scale =
      fill_rest(kind, call, checked, &prepared->scale, &prepared->lists, &op);
  if (stream != nullptr) put_on_stream(*stream, /*aside=*/true, &op);
  prepared->label = std::string(options.label);
  prepared->reduction = call.op;
  if (options.timeout.has_value())
    op.timeout_ns = timeout_ns_of(*options.timeout);
  keep(&op.in.counts, identity_.size, &prepared->in_counts);
  keep(&op.in.displs, identity_.size, &prepared->in_displs);
  keep(&op.out.counts, identity_.size, &prepared->out_counts);
  keep(&op.out.displs, identity_.size, &prepared->out_displs);
  return absl::OkStatus();
}

absl::Status BackendCommunicator::check_open(uint16_t kind) const {
  if (!process_.is_of_parent() &&
      life_.load(std::memory_order_seq_cst) == Life::kOpen)
    return absl::OkStatus();
  return refuse_closed(kind);
}

absl::StatusOr<std::vector<Work>> BackendCommunicator::submit_batch(
    absl::Span<const BatchItem> items) {
  std::vector<Work> works;
  std::vector<WorkCell*> cells;
  std::vector<uint64_t> records;
  std::vector<dw_group_item> group;
  BatchVisit visit;
  if (absl::Status entered = visit.enter(items); !entered.ok()) return entered;
  // Takes back what was boarded, latest first; the error of the first item.
  const auto unwind = [&](int32_t code, const dw_error& error) {
    if (is_refusal(code))
      for (size_t i = cells.size(); i-- > 0;)
        items[i].communicator->unstamp(items[i].prepared->op);
    visit.leave();  // what follows may take its time
    absl::Status status;
    for (size_t i = cells.size(); i-- > 0;) {
      BackendCommunicator& owner = *items[i].communicator;
      const dw_op& op = items[i].prepared->op;
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
    cells.push_back(owner.embark(op, item.prepared->own_scale,
                                 item.prepared->label, Recorder::kInBatch));
    records.push_back(cells.back()->record());
    works.push_back(cells.back()->handle());
    group.push_back({owner.comm_, &op, cells.back()->abi()});
  }
  if (items.empty()) return works;
  BackendInstance& backend = *items.front().communicator->backend_;
  dw_error error{};
  error.peer = -1;
  int32_t code;
  for (;;) {
    code = backend.submit_group(group, &error);
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
  for (size_t i = 0; i < records.size(); ++i)
    if (records[i] != 0) items[i].communicator->recorder_->started(records[i]);
  if (code == DW_OK) return works;
  if (code != DW_DONE) return unwind(code, error);
  for (WorkCell* const cell : cells) cell->land(WorkState::kDone);
  return works;
}

}  // namespace distwrap::comm
