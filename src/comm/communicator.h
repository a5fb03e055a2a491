// A Communicator on one backend.
//
// A call goes one way (communicator_call.cc), each step one function:
//
//   check   what the caller wrote, before anything is sent    op_check.h
//   build   the ABI's descriptor                              op_build.h
//   stamp   the number that all ranks give a collective
//   trace   the group's page of the board, the recorder       call_trace.h
//   submit  to the table where it enters                      backend_stack.h
//   conclude  a Work, or the error as the user will see it
//
// Windows (window.h) check and build their own calls, which then go the same
// way from the trace on.
//
// Threads: any. Ownership: held by its Group; closed before it dies.
#ifndef DISTWRAP_SRC_COMM_COMMUNICATOR_H_
#define DISTWRAP_SRC_COMM_COMMUNICATOR_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/backend_instance.h"
#include "comm/biased_lock.h"
#include "comm/board/group_board.h"
#include "comm/call_forms.h"
#include "comm/call_guard.h"
#include "comm/call_trace.h"
#include "comm/first_failure.h"
#include "comm/hooks.h"
#include "comm/host_news.h"
#include "comm/on_device.h"
#include "comm/op_build.h"
#include "comm/op_check.h"
#include "comm/op_shape.h"
#include "comm/prepared_call.h"
#include "comm/prepared_op.h"
#include "comm/recorder/session_recording.h"
#include "comm/submit_queue.h"
#include "comm/table_plan.h"
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
  absl::Duration timeout =
      absl::InfiniteDuration();  // limit of the group's operations
  RecordedAs recorded = {};
  std::shared_ptr<HookList> hooks = nullptr;  // null: none can be added
  std::shared_ptr<GroupNews> news = nullptr;  // null: all members are here
};

class BackendCommunicator final : public CallForms<BackendCommunicator>,
                                  private WorkOwner,
                                  private GroupBoard::Listener {
 public:
  // Aborts operations in flight, and frees the communicator once its backend
  // has released it. A backend that does not may still complete work; then the
  // communicator stays, with all that it uses, until the process ends. So does,
  // untouched, a communicator of the parent in the child of a fork.
  struct End {
    void operator()(BackendCommunicator* communicator) const;
  };
  using Ptr = std::unique_ptr<BackendCommunicator, End>;
  // Takes over the backend's `comm`. Without a group page the ranks are not
  // watched.
  static Ptr make(Identity identity, std::shared_ptr<BackendInstance> backend,
                  dw_comm* comm, FirstFailure first_failure,
                  std::shared_ptr<Watchdog> watchdog,
                  std::shared_ptr<GroupBoard> board = nullptr);

  int rank() const override { return identity_.rank; }
  int size() const override { return identity_.size; }
  absl::string_view backend() const override { return backend_->name(); }

  // ---- calls ----

  // A plain call or one with counts; inlined into each operation. If it is put
  // on a stream of the backend's device, it has started when this returns,
  // whether the caller waits or not; a null stream means host order.
  template <uint16_t kKind, class Form>
  absl::StatusOr<Work> run(const Form& call, const CallOptions& options,
                           const Stream* stream = nullptr);
  // Runs any call, including lists, scans and premul_sum.
  absl::StatusOr<Work> run_any(uint16_t kind, const AnyCall& call,
                               const CallOptions& options,
                               const Stream* stream = nullptr);

  // Checks a call of a batch and records it, without sending it or giving it a
  // number.
  absl::Status prepare(uint16_t kind, const AnyCall& call,
                       const CallOptions& options, const Stream* stream,
                       PreparedOp* prepared) const;
  // An operation of a batch, and the communicator that runs it.
  struct BatchItem {
    BackendCommunicator* communicator = nullptr;
    PreparedOp* prepared = nullptr;
  };
  // Starts operations, all on one backend instance, as one group.
  static absl::StatusOr<std::vector<Work>> submit_batch(
      absl::Span<const BatchItem> items);

  // ---- prepared operations (communicator_prepared.cc) ----

  // Checks a collective for many starts. Sends nothing: `fingerprint`, not 0,
  // is equal on all ranks and covers what each of them has to give, so that a
  // start needs no other comparison.
  absl::StatusOr<std::unique_ptr<PreparedCall>> prepare_call(
      uint16_t kind, const AnyCall& call, const CallOptions& options,
      uint64_t fingerprint);
  // Collective: the ranks compare what each of them wants to prepare, and all
  // get one error if that does not fit or a rank's `refused` says why it
  // cannot. (In communicator_agree.cc.)
  absl::StatusOr<std::unique_ptr<PreparedCall>> prepare_together(
      const PreparedOp& prepared, const absl::Status& refused);
  absl::StatusOr<Work> start_prepared(const PreparedCall& prepared,
                                      PreparedCall::Place at,
                                      const CallOptions& options);
  // The plans of a call that is not started again.
  void release_plans(const PreparedCall& call);

  // Why a call of this kind would be refused, whatever its arguments.
  absl::Status check_open(uint16_t kind) const;

  // ---- what it belongs to ----

  const BackendInstance* instance() const { return backend_.get(); }
  const std::shared_ptr<BackendInstance>& kept_instance() const {
    return backend_;
  }
  // A reference to the backend's communicator, to build another one from it.
  class Reference;
  // The hooks that are shown this group's calls; null when none can be added.
  const std::shared_ptr<HookList>& hooks() const { return identity_.hooks; }
  // Fills in `run` from a recorded item.
  void show(const PreparedOp& prepared, HookRun& run) const;
  // The limit of later operations that give none. Positive.
  void set_timeout(absl::Duration timeout) {
    timeout_ns_.store(timeout_ns_of(timeout), std::memory_order_relaxed);
  }

  // ---- its end (communicator_end.cc) ----

  // Refuses new calls, waits for running ones to the deadline, then aborts
  // them. True when nothing had failed, so that the peers may be expected to
  // end it the same way.
  bool drain(Deadline deadline);
  // Called after `drain` and before the peers pass the close barrier: returns a
  // mismatch of calls that no call has reported yet. A rank that ended right
  // after it would never learn of it.
  absl::Status pending_mismatch();
  // Called after `drain`: destroys the backend's communicator. Later calls do
  // nothing. The error, where nothing had failed before, is the backend's, which
  // says what the program keeps from ending; it ends that by itself later.
  absl::Status destroy(Deadline deadline);

  // Fails all operations in flight and all later ones on this rank and, through
  // the backend's connections, on the others.
  void abort(ErrorInfo cause);
  // Whether a failure has ended it, and not its owner.
  bool is_broken() const {
    return life_.load(std::memory_order_acquire) == Life::kBroken;
  }
  // The failure that has ended it, if one has.
  std::optional<ErrorInfo> failure() const;
  // For a call that waits in the store and not in here: a failure ends the
  // group while it waits, and makes the eventfd readable.
  void add_alarm(int eventfd);
  void remove_alarm(int eventfd);
  // Whether members are on other hosts.
  bool has_far_members() const { return identity_.news != nullptr; }
  // Tells the others the cause first, unless `tell` has passed.
  void abort_everywhere(ErrorInfo cause, Deadline tell);
  // Ends the operations for which `drain` waits in another thread.
  void abort_drain(ErrorInfo cause, Deadline tell);
  // Breaks the group by an error of this rank, such as an allocation that
  // failed in the middle of a call. Throws nothing.
  void break_by(const absl::Status& error);
  // A hook refused a call that the other ranks make. They learn of it when
  // their own calls fail.
  void refused_by_hook(ErrorInfo refusal);

 private:
  friend class Window;
  BackendCommunicator(Identity identity,
                      std::shared_ptr<BackendInstance> backend, dw_comm* comm,
                      FirstFailure first_failure,
                      std::shared_ptr<Watchdog> watchdog,
                      std::shared_ptr<GroupBoard> board);
  ~BackendCommunicator() override;

  enum class Life : uint8_t { kOpen, kBroken, kClosed };
  enum class Abort : uint8_t { kNone, kRunning, kDone };

  // ---- the way of a call ----

  // A call that is inside, and what its steps need of it.
  struct CallContext {
    uint16_t kind;
    const AnyCall& call;
    const CallOptions& options;
    CallGuard::Slot& slot;
    const Stream* stream = nullptr;
    BiasedLock::Place place = BiasedLock::Place::kAlone;
    int64_t deadline_ns =
        0;  // the limit of a call that has waited; 0: by its timeout
    uint64_t* seq = nullptr;  // where to put its number
    // A start of a prepared operation; `call` then says nothing.
    const PreparedCall* prepared = nullptr;
    PreparedCall::Place at = {};
  };
  // Any call: hooks, the biased lock, then the steps.
  absl::StatusOr<Work> run_general(CallContext context);
  // By value: a call whose address went out would have to live in memory.
  absl::StatusOr<Work> run_copy(uint16_t kind, AnyCall call,
                                const CallOptions& options,
                                CallGuard::Slot& slot, const Stream* stream);
  absl::StatusOr<Work> run_hooked(CallContext context);
  absl::StatusOr<Work> run_locked(CallContext context);
  absl::StatusOr<Work> run_inside(CallContext& context);
  absl::StatusOr<Work> start_inside(CallContext& context);
  // stamp, trace, submit, conclude: a descriptor that is complete but for its
  // number.
  absl::StatusOr<Work> run_built(CallContext& context, dw_op& op,
                                 bool own_scale);
  class HookScope;

  // Checks where a start's buffers lie, and builds its descriptor.
  absl::Status build_start(const PreparedCall& prepared, PreparedCall::Place at,
                           const CallOptions& options, dw_op* op) const;
  // The call's descriptor for hooks, which see it before it is made.
  absl::Status build_shown(const CallContext& context, PreparedOp* shown) const;
  absl::StatusOr<std::unique_ptr<PreparedCall>> make_prepared(
      std::unique_ptr<PreparedOp> kept);
  // While no other thread submits.
  absl::Status make_plans(PreparedCall* call);
  void end_released_plans();
  absl::StatusOr<uint64_t> agree_on(const PreparedOp& prepared,
                                    const absl::Status& refused);

  absl::Status check_and_build(uint16_t kind, const AnyCall& call,
                               const CallOptions& options, ScaleBytes* scale,
                               ListArrays* lists, bool* own_scale,
                               dw_op* op) const;
  // Sets DW_FLAG_REGISTERED where that is so.
  void say_registered(dw_op* op) const;
  void stamp(dw_op* op);
  // A refused call has used no sequence number.
  void unstamp(const dw_op& op);

  // Where an operation enters whose caller waits, and who answers for it.
  struct Entry {
    const Runner& runner;
    WorkOwner& owner;  // the communicator, or one of its windows
    const TraceTarget& trace;
    Recorder::Numbers& numbers;
    // The caller's slot, by which other threads may enter while it waits; null
    // for a window, whose calls have no order.
    CallGuard::Slot* slot;
    // An operation that moves little data ends at once unless its backend has
    // said that it waits.
    bool quick;
  };
  Entry entry(uint16_t kind, int32_t peer, CallGuard::Slot& slot) {
    return entry(runner(kind, peer), slot);
  }
  Entry entry(const Runner& by, CallGuard::Slot& slot) {
    return {by, *this, trace_, record_numbers_, &slot, by.says_waits()};
  }
  // Where operations enter whose caller waits.
  const Runner& runner(uint16_t kind, int32_t peer) const {
    if (op_shape(kind).collective()) return waiting_collectives_;
    return peer == identity_.rank ? any_ : waiting_messages_;
  }
  // The caller only waits from now on. Other threads may enter beside it, and
  // stamp and record.
  void say_waits(CallGuard::Slot& slot, bool collective) {
    CallGuard::say(slot, this,
                   collective ? CallGuard::Doing::kWaitsForCollective
                              : CallGuard::Doing::kWaitsForMessage);
  }
  template <uint16_t kKind>
  class PromptTrace;
  template <uint16_t kKind>
  class LaterTrace;
  class NoTrace;
  template <uint16_t kKind>
  void write_trace(const dw_op& op, Recorder::Numbers& numbers,
                   CallGuard::Slot* slot, CallTrace* trace);
  template <class Trace>
  absl::StatusOr<Work> wait_with(Trace& trace, dw_op& op,
                                 const CallOptions& options,
                                 const Entry& entry);
  // trace, submit, conclude: an operation whose caller waits.
  template <uint16_t kKind>
  absl::StatusOr<Work> wait_for(dw_op& op, const CallOptions& options,
                                const Entry& entry);
  // A call, compiled once and not inlined: its trace is written before the
  // backend has the operation, or when that says that it is under way.
  template <uint16_t kKind>
  absl::StatusOr<Work> wait_prompt(dw_op& op, const CallOptions& options,
                                   const Runner& by, CallGuard::Slot& slot);
  template <uint16_t kKind>
  absl::StatusOr<Work> wait_later(dw_op& op, const CallOptions& options,
                                  const Runner& by, CallGuard::Slot& slot);
  template <uint16_t kKind>
  absl::StatusOr<Work> wait_traced(dw_op& op, const CallOptions& options,
                                   const Runner& by, CallGuard::Slot& slot);
  // A call for which the host does more than to submit it.
  absl::StatusOr<Work> wait_attended(dw_op& op, const CallOptions& options,
                                     const Runner& by, CallGuard::Slot& slot);
  // The rest of it, when the backend did not finish at once.
  absl::StatusOr<Work> wait_again(dw_op& op, int32_t code, dw_error* error,
                                  const CallOptions& options,
                                  const Entry& entry);
  // submit and conclude for a backend whose calls the watchdog ends.
  absl::StatusOr<Work> wait_watched(dw_op& op, const CallOptions& options,
                                    const Entry& entry);
  class SyncWatch;

  // An operation that was given to the backend with a cell.
  struct Started {
    Work work;
    WorkCell* cell = nullptr;
    int32_t code = DW_OK;
    dw_error error;
  };
  // trace, submit: an operation that completes later.
  Started start(dw_op& op, const CallOptions& options, bool own_scale,
                WorkOwner& owner, Recorder::Numbers& numbers) {
    return start_by(any_, op, options, own_scale, owner, numbers);
  }
  Started start_by(const Runner& by, dw_op& op, const CallOptions& options,
                   bool own_scale, WorkOwner& owner,
                   Recorder::Numbers& numbers);
  // The completion cell of an operation about to be submitted.
  WorkCell* begin(dw_op& op, absl::string_view label, bool own_scale,
                  WorkOwner& owner, Recorder::Numbers& numbers,
                  uint32_t record_flags = 0);
  // The backend has taken the operation, or refused it.
  void left_host(const WorkCell& cell);
  absl::StatusOr<Work> conclude(const dw_op& op, Started&& started,
                                WorkOwner& owner, const CallOptions& options);
  // A plain call that completes later.
  absl::StatusOr<Work> start_and_conclude(dw_op& op,
                                          const CallOptions& options);
  // A plain call on a stream, which has no number yet.
  absl::StatusOr<Work> start_on_stream(dw_op& op, const CallOptions& options,
                                       const Stream& stream);

  // ---- operations that wait for resources (communicator_queue.cc) ----

  bool has_queued() const {
    return queued_.load(std::memory_order_acquire) != 0;
  }
  // Operations of one backend instance that it has answered with DW_AGAIN.
  static void enqueue(SubmitQueue::Set set);
  static int32_t submit_queued(SubmitQueue::Set& set) noexcept;
  static int32_t submit_set(SubmitQueue::Set& set, dw_error* error);
  class QueueEntry;
  void leave_queue();
  void conclude_queued(const QueuedOp& queued, int32_t code,
                       const dw_error& error);
  // Before a call whose caller waits.
  absl::Status wait_for_queue(CallContext& context, int64_t timeout_ns);

  // Submits again until the deadline while the backend lacks resources and the
  // group is open.
  int32_t submit_again(const Runner& by, const dw_op& op, dw_work* work,
                       dw_error* error);
  // The error of an operation that its backend refused or that has failed;
  // `late`: its deadline has ended it.
  absl::Status conclude(const dw_op& op, int32_t code, const dw_error& error,
                        WorkOwner& owner, const CallOptions& options,
                        std::optional<ErrorInfo> late = std::nullopt);
  // Called in a handler: an exception has ended a call, part of which the peers
  // may have seen, so the group breaks.
  absl::Status broken_by_exception(uint16_t kind);
  // An error with the call's label.
  static absl::StatusOr<Work> labelled(const CallOptions& options,
                                       absl::StatusOr<Work> result);
  // Whether a code leaves the group as it was: nothing was started.
  static bool is_refusal(int32_t code);
  // Clears the fields that are read even if the backend does not fill them in.
  static void clear(dw_error* error) {
    error->reason = DW_REASON_NONE;
    error->peer = -1;
    error->native = 0;
    error->text[0] = 0;
  }
  class BatchEntry;

  // ---- refusals and causes (communicator_errors.cc) ----

  absl::Status refuse(Fault fault, uint16_t kind, const AnyCall& call) const;
  absl::Status refuse_timeout(uint16_t kind, absl::Duration timeout) const;
  absl::Status refuse_closed(uint16_t kind) const;
  // Refuses a call on a window or other part of this communicator while the
  // communicator is not open.
  absl::Status refuse_broken(absl::string_view call) const;
  // Whether the backend orders by this stream.
  absl::Status check_stream(const char* call, const Stream& stream) const;
  // Puts the operation on the stream, as captured where that is captured.
  // `aside`: later work on the stream does not wait for the operation.
  absl::Status put_on_stream(const Stream& stream, bool aside, dw_op* op) const;
  // The error of a call that could not enter before its deadline because of
  // another thread's call.
  absl::Status refuse_place(uint16_t kind, int64_t timeout_ns);
  // The failure that broke the group, as the error of a call.
  ErrorInfo cause_for(absl::string_view call, uint64_t seq) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Replaces the failure that this rank saw by the one that came first in the
  // group, as the board and the store, or the store alone, know it.
  void learn_root_cause(ErrorInfo* info);
  std::optional<ErrorInfo> ask_board(const ErrorInfo& info);
  std::optional<ErrorInfo> heard_news();
  void learn_first(ErrorInfo* info,
                   absl::Duration patience = FirstFailure::kShort);
  void learn_loss_of_store(ErrorInfo* info, bool does_not_answer);
  // The part of `pending_mismatch` about messages, which are not on the board;
  // in message_mismatch.cc.
  absl::Status pending_message_mismatch();
  // Fills in which operation, group and rank.
  ErrorInfo located(ErrorInfo info, absl::string_view call, uint64_t seq) const;
  ErrorInfo located(ErrorInfo info, uint16_t kind, uint64_t seq) const;

  // ---- windows ----

  std::vector<std::shared_ptr<Window>> windows() const;
  void forget(const Window* window);
  // False when calls on windows have not left by the deadline.
  bool shut_windows(Deadline deadline);

  // WorkOwner
  ErrorInfo work_timeout(const dw_op& op) const override;
  void name_missing(ErrorInfo* info) override;
  void work_expired(const ErrorInfo& cause) override;
  ErrorInfo work_failed(const dw_op& op, int32_t code,
                        const dw_error& error) override;
  std::shared_ptr<const BackendInstance> work_engine() override {
    return backend_;
  }
  absl::Status work_wait_stream(dw_work* work, const Stream& stream) override;
  void run_queued(uint64_t seq) override;
  bool work_cancel(const dw_op& op, const WorkCell& cell) override;
  void work_begun() override;
  void work_on_device(const dw_op& op, const WorkCell& cell) override;
  std::string why_queued(const dw_op& op) override;
  void work_ended(const WorkCell& cell, Reason reason, bool good) override;
  void work_finished() override;

  // GroupBoard::Listener
  void board_found(ErrorInfo found) override;
  void board_waits(GroupBoard::Stuck stuck) override;
  void board_tells(std::string text) override;
  void board_hears(absl::string_view text) override;

  const base::ForkMark process_;
  const Identity identity_;
  const std::shared_ptr<BackendInstance> backend_;
  // Members that every call reads, kept together.
  const Capabilities& capabilities_;
  const Runner waiting_collectives_, waiting_messages_, any_;
  std::atomic<int64_t> timeout_ns_;  // 0: none
  TraceTarget trace_;
  Recorder::Numbers record_numbers_;  // used by the thread that may stamp
  // Something is written down, and nothing has to be known before.
  const bool traced_;
  dw_comm* const comm_;
  FirstFailure first_failure_;
  const std::shared_ptr<Watchdog> watchdog_;
  BiasedLock lock_;
  // Written by the thread that is alone inside, else under the submit mutex, so
  // no atomic read-modify-write is needed.
  std::atomic<uint64_t> seq_{0};
  std::atomic<Life> life_{Life::kOpen};
  std::atomic<int> queued_{0};  // operations in the queue of the instance

  OnDevice on_device_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  // Falls under the mutex only: who sees 0 under it sees no work any more.
  std::atomic<int> in_flight_{0};
  Abort abort_ ABSL_GUARDED_BY(mutex_) =
      Abort::kNone;  // state of the backend's communicator
  bool destroyed_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the backend's communicator was destroyed: no call uses it any more.
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  int references_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<Window>> windows_ ABSL_GUARDED_BY(mutex_);
  // Prepared operations, and those of them that are not started again, which
  // end when nothing is in flight.
  std::vector<std::unique_ptr<TablePlan>> plans_ ABSL_GUARDED_BY(mutex_);
  std::vector<TablePlan*> released_plans_ ABSL_GUARDED_BY(mutex_);
  // Calls that are in hooks. If the communicator has ended, the last of them
  // frees it.
  int in_hooks_ ABSL_GUARDED_BY(mutex_) = 0;
  bool freed_by_hooks_ ABSL_GUARDED_BY(mutex_) = false;
  ErrorInfo first_cause_ ABSL_GUARDED_BY(mutex_);
  // The board found the failure, and no call of this rank has reported it yet.
  mutable bool is_news_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> alarms_ ABSL_GUARDED_BY(mutex_);
  // Made last and ended first, since it reports its findings to this object.
  // Null when no other member is watched.
  std::shared_ptr<GroupBoard> board_;
};

class BackendCommunicator::Reference {
 public:
  // Refers to nothing if `to` is null or has ended.
  explicit Reference(BackendCommunicator* to);
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  dw_comm* comm() const { return to_ == nullptr ? nullptr : to_->comm_; }

 private:
  BackendCommunicator* to_;
};

// communicator_call.cc, where the plain calls are inlined, instantiates it.
extern template class CallForms<BackendCommunicator>;

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_COMMUNICATOR_H_
