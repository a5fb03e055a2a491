// Synchronous calls that others may read about: on the board, and in the
// recording.
#include "base/error.h"
#include "comm/communicator.h"

namespace distwrap::comm {
namespace {

// So little that to move it takes no longer than some readings of a clock.
[[gnu::always_inline]] inline bool moves_little(const dw_op& op) {
  constexpr uint64_t kFew = 512;  // elements
  return static_cast<uint64_t>(op.in.count) <= kFew &&
         static_cast<uint64_t>(op.out.count) <= kFew;
}

}  // namespace

// What others may read of a synchronous call: shown on the board, and recorded.
template <uint16_t kKind, bool kOnBoard>
[[gnu::always_inline]] inline uint64_t BackendCommunicator::keep_books(
    const dw_op& op, absl::string_view label, CallGuard::Slot& slot) {
  const uint16_t kind = kKind == kAnyKind ? op.kind : kKind;
  if (kOnBoard) lane_->publish(kind, op, label);
  const uint64_t record = begin_record(kind, op, 0, label);
  say_waits(slot, op_shape(kind).collective());
  return record;
}

// The same once a backend says that the call is under way: its part is on the
// way to the others by then, which takes longer than this.
template <uint16_t kKind, bool kOnBoard>
class BackendCommunicator::Books final : public BackendInstance::Deferred {
 public:
  Books(BackendCommunicator& owner, const dw_op& op, absl::string_view label,
        CallGuard::Slot& slot)
      : owner_(owner), op_(op), label_(label), slot_(slot) {}

  void run() override {
    record_ = owner_.keep_books<kKind, kOnBoard>(op_, label_, slot_);
  }
  int32_t submit(const BackendInstance::Runner& by, dw_error* error) {
    BackendInstance::deferred = this;
    const int32_t code = by.submit(by.comm, &op_, nullptr, error);
    if (BackendInstance::deferred != nullptr) {
      BackendInstance::deferred = nullptr;
      run();
    }
    return code;
  }
  // The number of its record, after that; 0 when there is none.
  uint64_t record() const { return record_; }

 private:
  BackendCommunicator& owner_;
  const dw_op& op_;
  const absl::string_view label_;
  CallGuard::Slot& slot_;
  uint64_t record_ = 0;
};

template <uint16_t kKind, bool kOnBoard>
[[gnu::always_inline]] inline absl::StatusOr<Work>
BackendCommunicator::run_and_record(dw_op& op, const CallOptions& options,
                                    CallGuard::Slot& slot) {
  const BackendInstance::Runner& by =
      runner(kKind == kAnyKind ? op.kind : kKind, op.peer);
  dw_error error;
  clear(&error);
  int32_t code = DW_UNKNOWN;
  uint64_t record;
  const uint64_t clock_reads = BackendInstance::clock_reads;
  if (by.says_under_way && !by.host_watches) {
    Books<kKind, kOnBoard> books(*this, op, options.label, slot);
    code = books.submit(by, &error);
    record = books.record();
  } else {
    record = keep_books<kKind, kOnBoard>(op, options.label, slot);
    if (!by.host_watches) code = by.submit(by.comm, &op, nullptr, &error);
  }
  if (code == DW_DONE) [[likely]] {
    if (kOnBoard) lane_->returned();
    if (record == 0) return Work();
    if (by.clocks_waits && BackendInstance::clock_reads == clock_reads &&
        moves_little(op)) [[likely]]
      recorder_->end_at_once(record);
    else
      recorder_->end(record, Recorder::kDone);
    return Work();
  }
  absl::StatusOr<Work> result =
      labelled(options, by.host_watches ? submit_watched(op, options.label)
                                        : finish_slow(op, code, &error));
  if (kOnBoard) lane_->returned();
  end_record(record, result.ok()
                         ? Recorder::kDone
                         : Recorder::failed(error_reason(result.status())));
  return result;
}

template <uint16_t kKind>
[[gnu::noinline]] absl::StatusOr<Work> BackendCommunicator::run_recorded(
    dw_op& op, const CallOptions& options, CallGuard::Slot& slot) {
  return run_and_record<kKind, false>(op, options, slot);
}

template <uint16_t kKind>
[[gnu::noinline]] absl::StatusOr<Work> BackendCommunicator::run_on_board(
    dw_op& op, const CallOptions& options, CallGuard::Slot& slot) {
  return run_and_record<kKind, true>(op, options, slot);
}

// For the kinds of the short way (call_forms.h), and all others.
#define INSTANTIATE(kind)                                                  \
  template absl::StatusOr<Work> BackendCommunicator::run_on_board<(kind)>( \
      dw_op&, const CallOptions&, CallGuard::Slot&);                       \
  template absl::StatusOr<Work> BackendCommunicator::run_recorded<(kind)>( \
      dw_op&, const CallOptions&, CallGuard::Slot&);
INSTANTIATE(kAnyKind)
INSTANTIATE(DW_OP_BARRIER)
INSTANTIATE(DW_OP_BROADCAST)
INSTANTIATE(DW_OP_REDUCE)
INSTANTIATE(DW_OP_ALL_REDUCE)
INSTANTIATE(DW_OP_GATHER)
INSTANTIATE(DW_OP_SCATTER)
INSTANTIATE(DW_OP_ALL_GATHER)
INSTANTIATE(DW_OP_REDUCE_SCATTER)
INSTANTIATE(DW_OP_ALL_TO_ALL)
INSTANTIATE(DW_OP_SEND)
INSTANTIATE(DW_OP_RECV)
#undef INSTANTIATE

}  // namespace distwrap::comm
