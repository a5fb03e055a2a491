// A Communicator on one backend: validates, stamps, submits, watches.
//
// Threads: any. Ownership: held by its Group; closed before it dies.
#ifndef DISTWRAP_SRC_COMM_COMMUNICATOR_H_
#define DISTWRAP_SRC_COMM_COMMUNICATOR_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/backend_instance.h"
#include "comm/board/lane.h"
#include "comm/call_forms.h"
#include "comm/call_guard.h"
#include "comm/first_failure.h"
#include "comm/hooks.h"
#include "comm/op_build.h"
#include "comm/op_check.h"
#include "comm/op_shape.h"
#include "comm/prepared_op.h"
#include "comm/recorder/session_recording.h"
#include "comm/seat.h"
#include "comm/watchdog.h"
#include "comm/work_cell.h"
#include "distwrap/communicator.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::comm {

class Window;

// Where a communicator belongs.
struct Identity {
  std::string group;
  int rank = 0, size = 1;
  absl::Duration timeout = absl::InfiniteDuration();  // of its operations
  RecordedAs recorded = {};
  std::shared_ptr<HookList> hooks = nullptr;  // null: none can be added
};

class BackendCommunicator final : public CallForms<BackendCommunicator>,
                                  private WorkOwner,
                                  private Lane::Listener {
 public:
  // Aborts what still runs, and frees the communicator once its backend has let
  // go of it. One that does not may still complete work or pass a deadline:
  // such a communicator stays, with all that it uses, to the process's end. So
  // does that of a parent in the child of a fork, untouched.
  struct End {
    void operator()(BackendCommunicator* communicator) const;
  };
  using Ptr = std::unique_ptr<BackendCommunicator, End>;
  // Takes the backend's `comm`. Without a lane the ranks are not watched.
  static Ptr make(Identity identity, std::shared_ptr<BackendInstance> backend,
                  dw_comm* comm, FirstFailure first_failure,
                  std::shared_ptr<Watchdog> watchdog,
                  std::shared_ptr<Lane> lane = nullptr);

  int rank() const override { return identity_.rank; }
  int size() const override { return identity_.size; }
  absl::string_view backend() const override { return backend_->name(); }

  // A call on the short way, inlined into each operation.
  template <uint16_t kKind>
  absl::StatusOr<Work> run(const Call& call, const CallOptions& options);
  template <uint16_t kKind>
  absl::StatusOr<Work> run_divided(const DividedCall& call,
                                   const CallOptions& options);
  // Any call: lists, scans and premul_sum as well.
  absl::StatusOr<Work> run_any(uint16_t kind, const AnyCall& call,
                               const CallOptions& options);

  // The same, put on a stream of the backend's device: started when this
  // returns, whether the caller waits or not.
  absl::StatusOr<Work> run_on_stream(uint16_t kind, const AnyCall& call,
                                     const CallOptions& options,
                                     const Stream& stream);

  // Checks a call of a batch and keeps it, unsent and without a number. On a
  // stream, unless that is null.
  absl::Status prepare(uint16_t kind, const AnyCall& call,
                       const CallOptions& options, const Stream* stream,
                       PreparedOp* prepared) const;
  // Why a call of this kind would be refused, whatever its arguments.
  absl::Status check_open(uint16_t kind) const;
  // An operation of a batch, and who runs it.
  struct BatchItem {
    BackendCommunicator* communicator = nullptr;
    PreparedOp* prepared = nullptr;
  };
  // Starts operations, all on one backend instance, as one group.
  static absl::StatusOr<std::vector<Work>> submit_batch(
      absl::Span<const BatchItem> items);
  const BackendInstance* instance() const { return backend_.get(); }
  const std::shared_ptr<BackendInstance>& kept_instance() const {
    return backend_;
  }
  // The backend's part, for building another out of it: there as long as the
  // loan, null after the end.
  class Loan;
  // Who is shown its calls; null when nobody can be.
  const std::shared_ptr<HookList>& hooks() const { return identity_.hooks; }
  // Fills in `run` from an item.
  void show(const PreparedOp& prepared, HookRun& run) const;

  // Limit of operations to come that give none. Positive.
  void set_timeout(absl::Duration timeout) {
    timeout_ns_.store(timeout_ns_of(timeout), std::memory_order_relaxed);
  }

  // Ends the life of the communicator: refuses new calls, waits for running
  // ones to the deadline, then aborts them. True when nothing had failed, so
  // that the peers may be expected to end it the same way.
  bool drain(Deadline deadline);
  // After `drain`, before the others are told goodbye: the calls that differ of
  // which no call has told. Who ends right after them would never hear of it.
  absl::Status untold();
  // After `drain`: gives the backend's part back. Later calls do nothing.
  void destroy(Deadline deadline);

  // Fails everything in flight and to come, on this rank and, through the
  // backend's connections, on the others.
  void abort(ErrorInfo cause);
  // Likewise, after the others were given the cause, unless `tell` has passed.
  void abort_everywhere(ErrorInfo cause, Deadline tell);
  // A hook refused a call that the other ranks make: they learn it from their
  // own, which ends.
  void refused_by_hook(ErrorInfo refusal);

 private:
  friend class Window;
  BackendCommunicator(Identity identity,
                      std::shared_ptr<BackendInstance> backend, dw_comm* comm,
                      FirstFailure first_failure,
                      std::shared_ptr<Watchdog> watchdog,
                      std::shared_ptr<Lane> lane);
  ~BackendCommunicator() override;

  class SyncWatch;
  class BatchVisit;
  enum class Life : uint8_t { kOpen, kBroken, kClosed };
  enum class Abort : uint8_t { kNone, kRunning, kDone };

  // A call inside, and where it has got its place.
  struct Visit {
    CallGuard::Slot& slot;
    Seat::Place place = Seat::Place::kAlone;
    int64_t deadline_ns = 0;  // of one that has waited; 0: by its timeout
    const Stream* stream = nullptr;  // of the backend's; null: host order
    uint64_t* seq = nullptr;         // where to put its number
  };

  // Both of those: what differs between a plain call and one with counts is in
  // overloads.
  template <uint16_t kKind, class Form>
  absl::StatusOr<Work> run_form(const Form& call, const CallOptions& options);
  // A call of a thread that does not have the seat, or on what is closed.
  absl::StatusOr<Work> run_slow(uint16_t kind, AnyCall call,
                                const CallOptions& options,
                                CallGuard::Slot& slot,
                                const Stream* stream = nullptr);
  // Such a call, to whose place nobody else has a claim.
  absl::StatusOr<Work> run_in_turn(uint16_t kind, AnyCall call,
                                   const CallOptions& options, Visit visit);
  // Such a call on a group with hooks; in communicator_hooks.cc.
  absl::StatusOr<Work> run_shown(uint16_t kind, AnyCall call,
                                 const CallOptions& options, Visit visit);
  class Stay;
  // A call that the short check did not let pass.
  absl::StatusOr<Work> run_long(uint16_t kind, AnyCall call,
                                const CallOptions& options, Visit visit);
  // The thread does nothing more but wait for the operation. Others may come in
  // beside it from now on, and stamp and record.
  void say_waits(CallGuard::Slot& slot, bool collective) {
    CallGuard::say(slot, this,
                   collective ? CallGuard::Doing::kWaitsForCollective
                              : CallGuard::Doing::kWaitsForMessage);
  }
  // Of an operation whose caller waits.
  const BackendInstance::Runner& runner(uint16_t kind, int32_t peer) const {
    if (op_shape(kind).collective()) return waiting_collectives_;
    return peer == identity_.rank ? any_ : waiting_messages_;
  }
  const BackendInstance::Runner& runner(const dw_op& op) const {
    return runner(op.kind, op.peer);
  }
  // On a backend whose calls the watchdog ends.
  absl::StatusOr<Work> submit_watched(dw_op& op, absl::string_view label);
  // Likewise when the caller does not wait; `op.scale` is copied when it is a
  // number of ours.
  absl::StatusOr<Work> submit_async(dw_op& op, bool own_scale,
                                    const CallOptions& options);
  // The call of a thread that came in beside another.
  absl::StatusOr<Work> submit_beside(dw_op& op, bool own_scale,
                                     const CallOptions& options,
                                     bool caller_waits, uint64_t* seq);
  // An operation that was submitted with a cell.
  struct Started {
    Work work;
    WorkCell* cell = nullptr;
    int32_t code = DW_OK;
    dw_error error;
  };
  Started start(dw_op& op, bool own_scale, absl::string_view label);
  absl::StatusOr<Work> conclude(const dw_op& op, Started started,
                                const CallOptions& options);
  // The completion cell of an operation about to be submitted.
  WorkCell* embark(dw_op& op, bool own_scale, absl::string_view label,
                   uint32_t record_flags = 0);
  // Of a synchronous call that the backend did not finish at once.
  absl::StatusOr<Work> finish_slow(dw_op& op, int32_t code, dw_error* error);
  int32_t submit(const dw_op& op, dw_work* work, dw_error* error);
  // While the backend lacks resources, to the deadline, and the group is open.
  int32_t submit_again(const BackendInstance::Runner& by, const dw_op& op,
                       dw_work* work, dw_error* error);
  // `late`: the deadline has ended it.
  absl::Status failed(const dw_op& op, int32_t code, const dw_error& error,
                      std::optional<ErrorInfo> late, int64_t started_ns);
  // An error with the call's label.
  static absl::StatusOr<Work> labelled(const CallOptions& options,
                                       absl::StatusOr<Work> result);
  // Whether a code leaves the group as it was: nothing was started.
  static bool is_refusal(int32_t code);
  void stamp(dw_op* op);

  // Writes an operation down: the number of its record, 0 when nothing is
  // recorded.
  [[gnu::always_inline]] uint64_t begin_record(uint16_t kind, const dw_op& op,
                                               uint32_t flags,
                                               absl::string_view label) {
    if (recorder_ == nullptr) return 0;
    flags |= (op.flags & DW_FLAG_IN_PLACE) != 0 ? Recorder::kInPlace : 0u;
    flags |= label.empty() ? 0u : Recorder::kLabelled;
    return recorder_->begin(record_numbers_, recorded_group_, kind, op, flags,
                            label);
  }
  void end_record(uint64_t record, uint16_t outcome) {
    if (record != 0) recorder_->end(record, outcome);
  }
  // What is read of an error that the backend may not fill in.
  static void clear(dw_error* error) {
    error->reason = DW_REASON_NONE;
    error->peer = -1;
    error->native = 0;
    error->text[0] = 0;
  }
  // What is left of a synchronous call that is shown or recorded; in
  // communicator_observed.cc. Apart, so that a call costs no more when it is
  // not; by kind, so that what it tells is mostly constant.
  template <uint16_t kKind>
  absl::StatusOr<Work> run_observed(dw_op& op, const CallOptions& options,
                                    CallGuard::Slot& slot) {
    return lane_ != nullptr && op.seq != 0
               ? run_on_board<kKind>(op, options, slot)
               : run_recorded<kKind>(op, options, slot);
  }
  template <uint16_t kKind>
  absl::StatusOr<Work> run_recorded(dw_op& op, const CallOptions& options,
                                    CallGuard::Slot& slot);
  template <uint16_t kKind>
  absl::StatusOr<Work> run_on_board(dw_op& op, const CallOptions& options,
                                    CallGuard::Slot& slot);
  template <uint16_t kKind, bool kOnBoard>
  uint64_t keep_books(const dw_op& op, absl::string_view label,
                      CallGuard::Slot& slot);
  template <uint16_t kKind, bool kOnBoard>
  class Books;
  template <uint16_t kKind, bool kOnBoard>
  absl::StatusOr<Work> run_and_record(dw_op& op, const CallOptions& options,
                                      CallGuard::Slot& slot);
  // A refused call has used no sequence number.
  void unstamp(const dw_op& op);

  // By value: a call whose address went out would have to live in memory.
  absl::Status refuse(Fault fault, uint16_t kind, AnyCall call) const;
  absl::Status refuse_timeout(uint16_t kind, absl::Duration timeout) const;
  absl::Status refuse_closed(uint16_t kind) const;
  // Of a call on what it owns, while it is not open.
  absl::Status refuse_broken(absl::string_view call) const;
  std::vector<std::shared_ptr<Window>> windows() const;
  void forget(const Window* window);
  // False when calls on windows have not left by the deadline.
  bool shut_windows(Deadline deadline);
  // Whether the backend orders by this stream.
  absl::Status check_stream(const char* call, const Stream& stream) const;
  ErrorInfo timeout_error(const dw_op& op) const;
  // Another thread's call was in the way up to the deadline.
  absl::Status refuse_place(uint16_t kind, int64_t timeout_ns);
  // What broke the group, as the error of a call.
  ErrorInfo cause_for(absl::string_view call, uint64_t seq) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts what failed first in the group in place of what this rank saw of it:
  // by the board and by the store, or by the store alone.
  void learn_culprit(ErrorInfo* info);
  std::optional<ErrorInfo> ask_board(const ErrorInfo& info);
  void learn_first(ErrorInfo* info,
                   absl::Duration patience = FirstFailure::kShort);
  // Fills in which operation, group and rank.
  ErrorInfo located(ErrorInfo info, absl::string_view call, uint64_t seq) const;
  ErrorInfo located(ErrorInfo info, uint16_t kind, uint64_t seq) const;

  // WorkOwner
  void name_missing(ErrorInfo* info) override;
  void work_expired(const ErrorInfo& cause) override;
  ErrorInfo work_failed(uint16_t kind, uint64_t seq, int32_t code,
                        const dw_error& error) override;
  std::weak_ptr<const BackendInstance> work_engine() override {
    return backend_;
  }
  bool work_has_streams() const override { return backend_->has_streams(); }
  absl::Status work_wait_stream(dw_work* work, const Stream& stream) override;
  void work_held() override;
  void work_ended(uint64_t seq, uint64_t record, Reason reason,
                  bool good) override;
  void work_landed() override;

  // Lane::Listener
  void board_found(ErrorInfo found) override;
  void board_waits(Lane::Stuck stuck) override;

  const base::ForkMark process_;
  const Identity identity_;
  const std::shared_ptr<BackendInstance> backend_;
  // What a call reads, side by side.
  const Capabilities& capabilities_;
  const BackendInstance::Runner waiting_collectives_, waiting_messages_, any_;
  std::atomic<int64_t> timeout_ns_;  // 0: none
  Recorder* const recorder_;         // null: nothing is recorded
  const uint16_t recorded_group_;
  Recorder::Numbers record_numbers_;  // of whoever may stamp
  bool observed_ = false;             // shown on the board, or recorded
  dw_comm* const comm_;
  FirstFailure first_failure_;
  const std::shared_ptr<Watchdog> watchdog_;
  Seat seat_;
  // Written by who is alone, else by turns: no read-modify-write is needed.
  std::atomic<uint64_t> seq_{0};
  std::atomic<Life> life_{Life::kOpen};

  mutable base::Mutex mutex_;
  base::CondVar landed_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  Abort abort_ ABSL_GUARDED_BY(mutex_) = Abort::kNone;  // of the backend's part
  bool destroyed_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the backend's part was given back: nobody will call any more.
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  int lent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<Window>> windows_ ABSL_GUARDED_BY(mutex_);
  // Calls that are in hooks; the last one of a communicator that has ended
  // takes it away.
  int staying_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_to_stay_ ABSL_GUARDED_BY(mutex_) = false;
  ErrorInfo first_cause_ ABSL_GUARDED_BY(mutex_);
  // The board found it, and no call of this rank has told it yet.
  mutable bool is_news_ ABSL_GUARDED_BY(mutex_) = false;
  // The last to come and the first to go: it tells of what it finds. Null when
  // no other member is watched.
  std::shared_ptr<Lane> lane_;
};

class BackendCommunicator::Loan {
 public:
  explicit Loan(BackendCommunicator* of);  // null: of nothing
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  dw_comm* comm() const { return of_ == nullptr ? nullptr : of_->comm_; }

 private:
  BackendCommunicator* of_;
};

// Where the short way is inlined into it.
extern template class CallForms<BackendCommunicator>;

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_COMMUNICATOR_H_
