// A Communicator on one backend: validates, stamps, submits, watches.
//
// Threads: any. Ownership: shared by its Group; closed before it dies.
#ifndef DISTWRAP_SRC_COMM_COMMUNICATOR_H_
#define DISTWRAP_SRC_COMM_COMMUNICATOR_H_

#include "base/mutex.h"
#include "comm/backend_instance.h"
#include "comm/first_failure.h"
#include "comm/op_check.h"
#include "comm/watchdog.h"
#include "comm/work_cell.h"
#include "distwrap/communicator.h"

#include <atomic>
#include <memory>
#include <string>

namespace distwrap::comm {

// Where a communicator belongs.
struct Identity {
  std::string group;
  int rank = 0, size = 1;
  absl::Duration timeout = absl::InfiniteDuration();  // of its operations
};

class BackendCommunicator final : public Communicator, private WorkOwner {
 public:
  // Takes the backend's `comm`. `watchdog` outlives it.
  BackendCommunicator(Identity identity,
                      std::shared_ptr<BackendInstance> backend, dw_comm* comm,
                      FirstFailure first_failure, Watchdog& watchdog);
  // Aborts what still runs.
  ~BackendCommunicator() override;

  int rank() const override { return identity_.rank; }
  int size() const override { return identity_.size; }
  absl::string_view backend() const override { return backend_->name(); }

  absl::StatusOr<Work> barrier(const CallOptions& options) override;
  absl::StatusOr<Work> broadcast(TensorView out, TensorView in, int root,
                                 const CallOptions& options) override;
  absl::StatusOr<Work> all_reduce(TensorView out, TensorView in, ReduceOp op,
                                  const CallOptions& options) override;
  absl::StatusOr<Work> all_gather(TensorView out, TensorView in,
                                  const CallOptions& options) override;
  absl::StatusOr<Work> reduce_scatter(TensorView out, TensorView in,
                                      ReduceOp op,
                                      const CallOptions& options) override;
  absl::StatusOr<Work> all_to_all(TensorView out, TensorView in,
                                  const CallOptions& options) override;
  absl::StatusOr<Work> send(TensorView in, int peer, int64_t tag,
                            const CallOptions& options) override;
  absl::StatusOr<Work> recv(TensorView out, int peer, int64_t tag,
                            const CallOptions& options) override;

  // Ends the life of the communicator: refuses new calls, waits for running
  // ones to the deadline, then aborts them. True when nothing had failed, so
  // that the peers may be expected to end it the same way.
  bool drain(Deadline deadline);
  // After `drain`: gives the backend's part back. Later calls do nothing.
  void destroy(Deadline deadline);

  // Fails everything in flight and to come, on this rank and, through the
  // backend's connections, on the others.
  void abort(ErrorInfo cause);

 private:
  class SyncWatch;
  enum class Life : uint8_t { kOpen, kBroken, kClosed };
  enum class Abort : uint8_t { kNone, kRunning, kDone };

  template <uint16_t kKind>
  absl::StatusOr<Work> run(const Call& call, const CallOptions& options);
  // On a backend whose calls the watchdog ends.
  absl::StatusOr<Work> submit_watched(dw_op& op);
  absl::StatusOr<Work> submit_async(dw_op& op);
  // Of a synchronous call that the backend did not finish at once.
  absl::StatusOr<Work> finish_slow(dw_op& op, int32_t code, dw_error* error);
  int32_t submit(const dw_op& op, dw_work* work, dw_error* error);
  // While the backend lacks resources, to the deadline.
  int32_t submit_again(const dw_op& op, dw_work* work, dw_error* error);
  absl::Status failed(const dw_op& op, int32_t code, const dw_error& error,
                      bool expired, int64_t started_ns);
  // Whether a code leaves the group as it was: nothing was started.
  static bool is_refusal(int32_t code);
  // A refused call has used no sequence number.
  void unstamp(const dw_op& op);

  // By value: a call whose address went out would have to live in memory.
  absl::Status refuse(Fault fault, uint16_t kind, Call call) const;
  absl::Status refuse_timeout(uint16_t kind, absl::Duration timeout) const;
  absl::Status refuse_closed(uint16_t kind) const;
  ErrorInfo timeout_error(const dw_op& op) const;
  // Puts what failed first in the group in place of what this rank saw of it.
  void learn_culprit(ErrorInfo* info);
  // Fills in which operation, group and rank.
  ErrorInfo located(ErrorInfo info, uint16_t kind, uint64_t seq) const;

  // WorkOwner
  void work_expired(const ErrorInfo& cause) override;
  ErrorInfo work_failed(uint16_t kind, uint64_t seq, int32_t code,
                        const dw_error& error) override;
  void work_landed() override;

  const Identity identity_;
  const std::shared_ptr<BackendInstance> backend_;
  // What a call reads, side by side.
  const Capabilities& capabilities_;
  int32_t (*const submit_)(dw_comm*, const dw_op*, dw_work*, dw_error*);
  dw_comm* comm_;
  const int64_t timeout_ns_;  // 0: none
  const bool host_watches_;
  FirstFailure first_failure_;
  Watchdog& watchdog_;
  // Written by whoever makes the calls; threads that share the communicator
  // order their calls, so no read-modify-write is needed.
  std::atomic<uint64_t> seq_{0};
  std::atomic<Life> life_{Life::kOpen};

  mutable base::Mutex mutex_;
  base::CondVar landed_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  Abort abort_ ABSL_GUARDED_BY(mutex_) = Abort::kNone;  // of the backend's part
  bool destroyed_ ABSL_GUARDED_BY(mutex_) = false;
  ErrorInfo first_cause_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_COMMUNICATOR_H_
