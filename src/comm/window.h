// A window of a communicator: checks, submits and records one-sided
// operations.
//
// Threads: any; calls of several threads do not wait for each other. Unlike
// collectives they have no order that ranks would share, so they take no lock.
// Ownership: held by its communicator and by handles. It ends with its
// communicator at the latest, and is of no use afterwards.
#ifndef DISTWRAP_SRC_COMM_WINDOW_H_
#define DISTWRAP_SRC_COMM_WINDOW_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/communicator.h"
#include "comm/setup.h"
#include "comm/window_check.h"
#include "distwrap/communicator.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::comm {

class Window final : private WorkOwner,
                     public std::enable_shared_from_this<Window> {
 public:
  // This rank's part. Without an address `count` elements are allocated.
  struct OwnPart {
    TensorView memory = {};
    int64_t count = 0;
    DType dtype = DType::kU8;
    uint64_t signals = 0;
  };
  // Collective. The window exists afterwards on all ranks or on none. Errors:
  // kUnsupported where the backend has no windows, kTimedOut naming the
  // missing, those of the backend.
  static absl::StatusOr<std::shared_ptr<Window>> build(
      BackendCommunicator& owner, SetupRounds& rounds, SetupPlan plan,
      const OwnPart& part, Deadline deadline);
  ~Window() = default;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(parts_.size()); }
  const std::string& group() const { return group_; }
  uint64_t uid() const { return uid_; }
  uint64_t signals() const { return signals_; }
  const WindowPart& part(int rank) const {
    return parts_[static_cast<size_t>(rank)];
  }
  // This rank's part.
  TensorView local() const { return local_; }

  absl::StatusOr<Work> run(uint16_t kind, const WindowCall& call,
                           const CallOptions& options);
  // As a part of a stream of the window's device: the host goes on.
  absl::StatusOr<Work> run_on(const Stream& stream, uint16_t kind,
                              const WindowCall& call,
                              const CallOptions& options);

  // Where this rank can load and store a part of another rank. Errors:
  // kUnsupported, kInvalidArgument.
  absl::StatusOr<TensorView> map(int rank) const;

  // Ends the window, in two steps between which the ranks meet. `close` refuses
  // calls from now on, lets running calls end, and makes their writes arrive.
  // An error says what did not end; false: it was called before.
  absl::StatusOr<bool> close(Deadline deadline);
  // The second step: destroys the backend's window, once.
  absl::Status end(Deadline deadline);

  // Called by the communicator: refuses calls; false when some have not left by
  // the deadline.
  bool shut(Deadline deadline);

  // Why calls are refused, whatever their arguments; OK when they are not.
  absl::Status check_open(const char* call) const;

 private:
  Window(BackendCommunicator& owner, const SetupPlan& plan, const OwnPart& part,
         dw_window* window, std::vector<WindowPart> parts);

  bool is_open() const;
  absl::Status refuse_closed(absl::string_view call) const;
  // The way of a call, as communicator.h describes it: check and build here,
  // the rest in the communicator.
  template <uint16_t kKind>
  absl::StatusOr<Work> run_as(uint16_t kind, const WindowCall& call,
                              const CallOptions& options);
  template <uint16_t kKind>
  absl::StatusOr<Work> run_open(uint16_t kind, const WindowCall& call,
                                const CallOptions& options);
  // A null stream means host order.
  absl::StatusOr<Work> run_hooked(uint16_t kind, const WindowCall& call,
                                  const CallOptions& options,
                                  const Stream* stream, CallGuard::Slot& slot);
  absl::StatusOr<Work> put_on(const Stream& stream, uint16_t kind,
                              const WindowCall& call,
                              const CallOptions& options);
  absl::StatusOr<Work> start(dw_op& op, const CallOptions& options);
  Recorder::Numbers& numbers() const;
  ErrorInfo located(ErrorInfo info, absl::string_view call) const;
  bool check_and_build(uint16_t kind, const WindowCall& call,
                       const CallOptions& options, dw_op* op,
                       absl::Status* refused) const;
  WindowPlace place() const;
  // Whether an operation is done by loads and stores, which wait for no rank.
  bool is_quick(uint16_t kind, int32_t peer) const {
    return kind != DW_OP_WAIT_SIGNAL && peer >= 0 &&
           mapped_[static_cast<size_t>(peer)] != 0;
  }
  // Whether an operation waits for nothing, and so is not recorded.
  bool is_idle(uint16_t kind) const {
    return all_mapped_ && (kind == DW_OP_FLUSH || kind == DW_OP_FENCE);
  }

  // WorkOwner
  ErrorInfo work_timeout(const dw_op& op) const override;
  void name_missing(ErrorInfo* info) override;
  void work_expired(const ErrorInfo& cause) override;
  ErrorInfo work_failed(const dw_op& op, int32_t code,
                        const dw_error& error) override;
  std::shared_ptr<const BackendInstance> work_engine() override;
  absl::Status work_wait_stream(dw_work* work, const Stream& stream) override;
  // No operation on a window waits for others before it.
  void run_queued(uint64_t /*seq*/) override {}
  bool work_cancel(const dw_op& op, const WorkCell& cell) override;
  void work_begun() override;
  void work_on_device(const dw_op& op, const WorkCell& cell) override;
  std::string why_queued(const dw_op& op) override;
  void work_ended(const WorkCell& cell, Reason reason, bool good) override;
  void work_finished() override;

  const base::ForkMark process_;
  BackendCommunicator& owner_;  // unless it is closed
  const std::string group_;
  const uint64_t uid_;
  const int rank_;
  const uint64_t signals_;
  const std::vector<WindowPart> parts_;  // by rank
  // Whether this rank can load and store a part, by rank; and all of them.
  std::vector<uint8_t> mapped_;
  bool all_mapped_ = true;
  TensorView local_;
  // Where operations enter whose caller waits, with the window's handle there.
  const Runner waiting_;
  dw_window* const waiting_window_;
  dw_window* const window_;
  const TraceTarget trace_;

  std::atomic<bool> closed_{false};
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // The end of the owner, and not a call, closed the window.
  bool owner_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

// A handle's window, with the stream of its calls.
struct WindowOnStream {
  std::shared_ptr<Window> window;
  Stream stream;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_WINDOW_H_
