// A communicator's part in a batch.
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator.h"
#include "comm/op_build.h"
#include "comm/op_shape.h"
#include "sdk/guard.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sched.h>
#include <utility>

namespace distwrap::comm {
// Enters all communicators of a batch, beside other calls, and holds the submit
// mutex of each while the batch starts. Mutexes are taken in the order of their
// addresses, so batches of several threads cannot deadlock.
class BackendCommunicator::BatchEntry {
 public:
  BatchEntry() = default;
  ~BatchEntry() { leave(); }
  BatchEntry(const BatchEntry&) = delete;
  BatchEntry& operator=(const BatchEntry&) = delete;

  absl::Status enter(absl::Span<const BatchItem> items);
  void leave();

 private:
  struct Place {
    const dw_op* first;
    bool collectives;
  };
  std::map<BackendCommunicator*, Place, std::less<>> places_;
  std::vector<BackendCommunicator*> entered_, locked_;
};

absl::Status BackendCommunicator::BatchEntry::enter(
    absl::Span<const BatchItem> items) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const int64_t now_ns = Deadline::now_ns();
  for (const BatchItem& item : items) {
    dw_op& op = item.prepared->op;
    set_deadline(op, now_ns);  // the deadline counts from here
    Place& place =
        places_.try_emplace(item.communicator, Place{&op, false}).first->second;
    place.collectives |= op_shape(op.kind).collective();
  }
  entered_.reserve(places_.size());
  locked_.reserve(places_.size());
  for (const auto& [communicator, place] : places_) {
    const dw_op& op = *place.first;
    const Deadline deadline = op.deadline_ns == 0
                                  ? Deadline::never()
                                  : Deadline::at_ns(op.deadline_ns);
    if (communicator->lock_.enter_beside(place.collectives, deadline) ==
        BiasedLock::Place::kNone)
      return communicator->refuse_place(op.kind, op.timeout_ns);
    entered_.push_back(communicator);
  }
  for (const auto& [communicator, place] : places_) {
    communicator->lock_.submit_mutex().lock();
    locked_.push_back(communicator);
  }
  return absl::OkStatus();
}

void BackendCommunicator::BatchEntry::leave() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (BackendCommunicator* const one : locked_)
    one->lock_.submit_mutex().unlock();
  for (BackendCommunicator* const one : entered_) one->lock_.leave();
  locked_.clear();
  entered_.clear();
}

absl::Status BackendCommunicator::prepare(uint16_t kind, const AnyCall& call,
                                          const CallOptions& options,
                                          const Stream* stream,
                                          PreparedOp* prepared) const try {
  if (stream != nullptr)
    if (absl::Status fits = check_stream(op_shape(kind).name, *stream);
        !fits.ok())
      return fits;
  dw_op& op = prepared->op;
  if (absl::Status good =
          check_and_build(kind, call, options, &prepared->scale,
                          &prepared->lists, &prepared->own_scale, &op);
      !good.ok())
    return good;
  if (stream != nullptr)
    if (absl::Status put = put_on_stream(*stream, /*aside=*/true, &op);
        !put.ok())
      return put;
  prepared->label = std::string(options.label);
  prepared->reduction = call.op;
  keep_counts(identity_.size, prepared);
  return absl::OkStatus();
} catch (...) {
  return base::error_of_exception(op_shape(kind).name);
}

absl::StatusOr<std::vector<Work>> BackendCommunicator::submit_batch(
    absl::Span<const BatchItem> items) try {
  std::vector<Work> works;
  std::vector<WorkCell*> cells;
  std::vector<dw_group_item> group;
  works.reserve(items.size());
  cells.reserve(items.size());
  group.reserve(items.size());
  BatchEntry visit;
  if (absl::Status entered = visit.enter(items); !entered.ok()) return entered;
  // Takes back the operations that were begun, latest first; returns the error
  // of the first item.
  const auto unwind = [&](int32_t code, const dw_error& error) {
    if (is_refusal(code))
      for (size_t i = cells.size(); i-- > 0;)
        items[i].communicator->unstamp(items[i].prepared->op);
    visit.leave();  // the rest may take long
    absl::Status status;
    for (size_t i = cells.size(); i-- > 0;) {
      BackendCommunicator& owner = *items[i].communicator;
      const dw_op& op = items[i].prepared->op;
      ErrorInfo info = owner.work_failed(op, code, error);
      info.label = items[i].prepared->label;
      cells[i]->finish(WorkState::kFailed, info);
      status = base::make_error(info);
    }
    return status;
  };
  for (const BatchItem& item : items) {
    BackendCommunicator& owner = *item.communicator;
    dw_op& op = item.prepared->op;
    // From `begin` on the cell keeps the communicator.
    const CallGuard inside(&owner);
    if (absl::Status open = owner.check_open(op.kind); !open.ok()) {
      // For the other groups the batch was refused, so they stay whole.
      unwind(DW_INVALID_ARGUMENT, dw_error{}).IgnoreError();
      return open;
    }
    owner.say_registered(&op);
    if (op_shape(op.kind).collective()) owner.stamp(&op);
    try {
      cells.push_back(owner.begin(op, item.prepared->label,
                                  item.prepared->own_scale, owner,
                                  owner.record_numbers_, Recorder::kInBatch));
    } catch (...) {
      dw_error error{};
      error.peer = -1;
      const int32_t code = dw_sdk::error_of_exception("a batch", &error);
      const absl::Status status = owner.broken_by_exception(op.kind);
      unwind(code, error).IgnoreError();
      return status;
    }
    works.push_back(cells.back()->handle());
    group.push_back({owner.comm_, &op, cells.back()->abi()});
  }
  if (items.empty()) return works;
  BackendInstance& backend = *items.front().communicator->backend_;
  dw_error error{};
  error.peer = -1;
  const bool waits = std::any_of(
      items.begin(), items.end(),
      [](const auto& item) { return item.communicator->has_queued(); });
  int32_t code =
      waits ? int32_t{DW_AGAIN} : backend.submit_group(group, &error);
  if (code == DW_AGAIN) {
    try {
      SubmitQueue::Set set;
      for (size_t i = 0; i < items.size(); ++i)
        set.push_back({items[i].communicator, cells[i],
                       keep_op(items[i].prepared->op,
                               items[i].communicator->identity_.size)});
      enqueue(std::move(set));
      return works;
    } catch (...) {
      code = dw_sdk::error_of_exception("a batch", &error);
    }
  }
  for (size_t i = 0; i < cells.size(); ++i)
    items[i].communicator->left_host(*cells[i]);
  if (code == DW_OK) return works;
  if (code != DW_DONE) return unwind(code, error);
  for (WorkCell* const cell : cells) cell->finish(WorkState::kDone);
  return works;
} catch (...) {
  // Nothing was sent yet.
  return base::error_of_exception("batch");
}

}  // namespace distwrap::comm
