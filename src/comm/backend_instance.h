// An opened backend: its instance for one session and device, with the host
// table that it calls back into.
//
// Threads: constant after `open`; the host table's functions run on any thread.
// Ownership: counted; communicators hold it, and the last one closes it.
#ifndef DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_
#define DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/allocations.h"
#include "comm/backend_stack.h"
#include "comm/capabilities.h"
#include "comm/hints.h"
#include "comm/progress_driver.h"
#include "comm/submit_queue.h"
#include "distwrap/status.h"
#include "distwrap/types.h"
#include "plugin/backend_table.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace distwrap::comm {

class BackendInstance {
 public:
  // Errors: kInvalidArgument for a hint that the backend does not know,
  // kNoCommunicator for a device type that it does not serve, and the backend's
  // own errors.
  static absl::StatusOr<std::shared_ptr<BackendInstance>> open(
      plugin::BackendPtr backend, Device device, const Hints& hints,
      const std::string& trace = {});
  BackendInstance(const BackendInstance&) = delete;
  BackendInstance& operator=(const BackendInstance&) = delete;

  // The uppermost table of the stack, which serves groups.
  const dw_backend_api& api() const { return stack_.api(); }
  dw_backend* backend() const { return stack_.backend(); }
  const BackendStack& stack() const { return stack_; }
  // The engine, under all decorators.
  const plugin::BackendPtr& engine() const { return stack_.engine(); }
  const std::string& name() const { return engine()->name(); }

  // Calls the backend's slot for one set at a time. Does not wait for a group
  // that is being built. [any]
  int32_t submit_group(absl::Span<const dw_group_item> items, dw_error* error);

  // Whether operations may be put on streams of its device.
  bool has_streams() const { return has_streams_; }
  // Whether it tells when a pending operation begins on the device.
  bool says_begun() const { return says_begun_; }
  // Whether one thread may submit an operation that does not wait while another
  // thread's call on the same communicator waits.
  bool submits_beside() const;

  // Calls the backend's `progress` unless another thread is doing so. Returns
  // whether operations may need another call: false when the backend completes
  // them in threads of its own. [any]
  bool progress() const;
  // Makes the session's thread drive the backend while operations are in
  // flight, if the backend has no threads of its own, or while operations wait
  // in the queue.
  void drive_by(const std::shared_ptr<Watchdog>& watchdog);
  void begin_driving() {
    if (drives_always_) driver_->begin();
  }
  void end_driving() {
    if (drives_always_) driver_->end();
  }
  // The backend asks for a call of its `progress`.
  void wake();
  void begin_retrying() { driver_->begin(); }
  void end_retrying() { driver_->end(); }
  // Operations that wait for resources.
  SubmitQueue& queue() const { return queue_; }

  // Held around every slot that takes one thread at a time per instance.
  base::Mutex& calls() ABSL_LOCK_RETURNED(calls_) { return calls_; }

  // Whether this process is a fork's child of the process that opened the
  // backend.
  bool is_of_parent() const { return process_.is_of_parent(); }
  Device device() const { return device_; }
  // Memory of its `mem_alloc`, kept where operations tell it from other memory.
  Allocations& allocations() { return allocations_; }
  const Capabilities& capabilities() const { return capabilities_; }

 private:
  BackendInstance(plugin::BackendPtr engine, Device device);

  const base::ForkMark process_;
  const Device device_;
  dw_host_api host_;
  BackendStack stack_;
  Capabilities capabilities_;
  bool has_streams_ = false, says_begun_ = false;
  Allocations allocations_;
  mutable base::Mutex calls_;
  base::Mutex sets_;
  mutable SubmitQueue queue_;
  std::once_flag driven_;
  bool drives_always_ = false;
  std::unique_ptr<ProgressDriver> driver_;
};

// The error of a failed call into a backend: reason and text as it gave them.
ErrorInfo backend_error(int32_t code, const dw_error& error,
                        absl::string_view backend);
// The ABI's form of an error of the library.
dw_error abi_error(const ErrorInfo& info);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_
