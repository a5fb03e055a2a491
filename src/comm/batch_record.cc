#include "comm/batch_record.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/batch_hooks.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::comm {
namespace {

absl::Status already_submitted(const char* op) {
  return base::make_error({.reason = Reason::kAlreadySubmitted,
                           .what = "the batch was submitted already",
                           .op = op,
                           .next_step = "make a new Batch"});
}

absl::Status name_item(const absl::Status& status, size_t item,
                       absl::string_view label) {
  return base::amend_error(status, [&](ErrorInfo& info) {
    info.what = absl::StrCat("item ", item, " of the batch: ", info.what);
    if (!label.empty()) info.label = std::string(label);
  });
}

}  // namespace

// A Communicator whose calls are kept.
class BatchRecord::Recorder final : public CallForms<Recorder> {
 public:
  Recorder(BatchRecord& record, BackendCommunicator& communicator,
           const Stream& stream)
      : record_(record), communicator_(communicator), stream_(stream) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  absl::string_view backend() const override { return communicator_.backend(); }
  BackendCommunicator& communicator() const { return communicator_; }
  const Stream& stream() const { return stream_; }

  template <uint16_t kKind, class Form>
  absl::StatusOr<Work> run(const Form& call, const CallOptions& options) {
    return run_any(kKind, any_call(call), options);
  }
  absl::StatusOr<Work> run_any(uint16_t kind, const AnyCall& call,
                               const CallOptions& options) {
    const absl::Status status =
        record_.add(communicator_, kind, call, options, stream_);
    if (!status.ok()) return status;
    return Work();
  }

 private:
  BatchRecord& record_;
  BackendCommunicator& communicator_;
  const Stream stream_;
};

Communicator& BatchRecord::on(Communicator& given) {
  if (auto* const own = dynamic_cast<BackendCommunicator*>(&given))
    return on(*own, {});
  return on(dynamic_cast<Recorder&>(given).communicator(), {});
}

Communicator& BatchRecord::on(BackendCommunicator& communicator,
                              const Stream& stream) {
  for (const auto& recorder : recorders_)
    if (&recorder->communicator() == &communicator &&
        recorder->stream() == stream)
      return *recorder;
  recorders_.push_back(std::make_shared<Recorder>(*this, communicator, stream));
  return *recorders_.back();
}

absl::Status BatchRecord::add(BackendCommunicator& communicator, uint16_t kind,
                              const AnyCall& call, const CallOptions& options,
                              const Stream& stream) try {
  if (submitted_) return already_submitted(op_shape(kind).name);
  items_.emplace_back();
  items_.back().communicator = &communicator;
  items_.back().prepared.op.kind = kind;
  absl::Status status = communicator.prepare(
      kind, call, options, stream.native == nullptr ? nullptr : &stream,
      &items_.back().prepared);
  return status.ok() ? status : refuse_last(status, options.label);
} catch (...) {
  return lose_item(base::error_of_exception(op_shape(kind).name));
}

absl::Status BatchRecord::refuse(const absl::Status& status) try {
  if (submitted_) return already_submitted("batch");
  items_.emplace_back();
  return refuse_last(status, {});
} catch (...) {
  return lose_item(base::error_of_exception("batch"));
}

absl::Status BatchRecord::lose_item(const absl::Status& status) {
  if (first_error_.ok()) first_error_ = status;
  return status;
}

absl::Status BatchRecord::refuse_last(const absl::Status& status,
                                      absl::string_view label) {
  absl::Status named = name_item(status, items_.size() - 1, label);
  if (first_error_.ok()) first_error_ = named;
  return named;
}

absl::Status BatchRecord::check_outputs() const {
  struct Piece {
    uintptr_t begin, end;
    size_t item;
  };
  std::vector<Piece> pieces;
  pieces.reserve(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    const PreparedOp& prepared = items_[i].prepared;
    const dw_buf& out = prepared.op.out;
    const uintptr_t element = out.dtype.bits / 8u;
    const auto add = [&](void* data, int64_t at, int64_t count) {
      if (count == 0 || data == nullptr) return;
      const uintptr_t from = reinterpret_cast<uintptr_t>(data) +
                             static_cast<uintptr_t>(at) * element;
      pieces.push_back(
          {from, from + static_cast<uintptr_t>(count) * element, i});
    };
    const ListArrays& lists = prepared.lists;
    const std::vector<int64_t>& displs = prepared.out_displs;
    for (size_t r = 0; r < lists.out_parts.size(); ++r)
      add(lists.out_parts[r], 0, lists.out_counts[r]);
    for (size_t r = 0; r < displs.size(); ++r)
      add(out.data, displs[r], prepared.out_counts[r]);
    if (lists.out_parts.empty() && displs.empty()) add(out.data, 0, out.count);
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < pieces.size(); ++i)
    if (pieces[i].begin < pieces[i - 1].end)
      return base::make_error(
          {.reason = Reason::kInvalidArgument,
           .what = absl::StrCat(
               "items ", std::min(pieces[i - 1].item, pieces[i].item), " and ",
               std::max(pieces[i - 1].item, pieces[i].item),
               " of the batch write the same memory"),
           .op = "batch",
           .next_step = "give each operation an output of its own"});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Work>> BatchRecord::submit() {
  if (submitted_) return already_submitted("batch");
  if (!first_error_.ok()) return first_error_;
  if (absl::Status status = check_outputs(); !status.ok()) return status;
  // All items are prepared before the first engine starts its part.
  for (size_t i = 0; i < items_.size(); ++i) {
    const PreparedOp& prepared = items_[i].prepared;
    const absl::Status open =
        items_[i].communicator->check_open(prepared.op.kind);
    if (!open.ok()) return name_item(open, i, prepared.label);
  }
  submitted_ = true;
  std::vector<BackendCommunicator::BatchItem> items;
  items.reserve(items_.size());
  for (Item& item : items_)
    items.push_back({item.communicator, &item.prepared});
  BatchHooks hooks(items);
  if (absl::Status refused = hooks.pre(); !refused.ok()) return refused;
  absl::StatusOr<std::vector<Work>> works = start(items);
  hooks.post(works);
  return works;
}

absl::StatusOr<std::unique_ptr<PreparedCall>> BatchRecord::prepare() {
  if (submitted_) return already_submitted("batch");
  const bool is_one = items_.size() == 1 && items_[0].communicator != nullptr &&
                      op_shape(items_[0].prepared.op.kind).collective();
  if (!is_one) {
    if (!first_error_.ok()) return first_error_;
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = "one collective can be prepared",
                             .op = "batch",
                             .actual = absl::StrCat(items_.size(), " items"),
                             .next_step = "make a Batch with one collective"});
  }
  submitted_ = true;
  return items_[0].communicator->prepare_together(items_[0].prepared,
                                                  first_error_);
}

absl::StatusOr<std::vector<Work>> BatchRecord::start(
    absl::Span<const BackendCommunicator::BatchItem> items) {
  const auto instance = [](const BackendCommunicator::BatchItem& item) {
    return item.communicator->instance();
  };
  if (std::adjacent_find(items.begin(), items.end(),
                         [&](const auto& one, const auto& next) {
                           return instance(one) != instance(next);
                         }) == items.end())
    return BackendCommunicator::submit_batch(items);
  std::vector<Work> works(items.size());
  std::vector<bool> started(items.size(), false);
  // Items of one backend instance start together, in order.
  for (size_t first = 0; first < items.size(); ++first) {
    if (started[first]) continue;
    std::vector<BackendCommunicator::BatchItem> together;
    std::vector<size_t> places;
    for (size_t i = first; i < items.size(); ++i) {
      if (instance(items[i]) != instance(items[first])) continue;
      together.push_back(items[i]);
      places.push_back(i);
      started[i] = true;
    }
    absl::StatusOr<std::vector<Work>> some =
        BackendCommunicator::submit_batch(together);
    if (!some.ok()) return some.status();
    for (size_t i = 0; i < places.size(); ++i)
      works[places[i]] = std::move((*some)[i]);
  }
  return works;
}

}  // namespace distwrap::comm
