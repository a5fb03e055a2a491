// An opened backend: its instance for one session and device, with the host
// table that it calls back into.
//
// Threads: constant after `open`; the host table's functions run on any thread.
// Ownership: counted; communicators hold it, and the last one closes it.
#ifndef DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_
#define DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/capabilities.h"
#include "comm/hints.h"
#include "distwrap/status.h"
#include "distwrap/types.h"
#include "plugin/backend_table.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::comm {

class BackendInstance {
 public:
  // Errors: kInvalidArgument for a hint that the backend does not know,
  // kNoCommunicator for a device type that it does not serve, its own.
  static absl::StatusOr<std::shared_ptr<BackendInstance>> open(
      plugin::BackendPtr backend, Device device, const Hints& hints,
      const std::string& trace = {});
  ~BackendInstance();
  BackendInstance(const BackendInstance&) = delete;
  BackendInstance& operator=(const BackendInstance&) = delete;

  // What serves groups: the backend, completed by the decorator `compose`.
  const dw_backend_api& api() const { return serving_->api(); }
  dw_backend* backend() const { return backend_; }
  const std::string& name() const { return table_->name(); }
  // The backend as it is, without the decorator.
  const plugin::BackendPtr& table() const { return table_; }

  // The backend itself, for what no decorator sees; none where calls are
  // written down.
  struct Engine {
    const dw_backend_api* api;
    dw_backend* backend;
  };
  Engine engine() const;

  // Who runs operations of a communicator that `api` has built. Those whose
  // caller waits: the backend itself, where it has all collectives, and all
  // messages to others. Completions of the rest come through the decorator, so
  // they enter by it.
  struct Runner {
    int32_t (*submit)(dw_comm*, const dw_op*, dw_work*, dw_error*);
    dw_comm* comm;
    bool host_watches;
    bool clocks_waits;
    bool says_under_way;
  };
  // How often backends have asked for the time on this thread.
  [[gnu::tls_model(
      "initial-exec")]] static constinit thread_local uint64_t clock_reads;
  // What is still to be done for the call that this thread is in, when its
  // backend says that it is under way; null: nothing.
  class Deferred {
   public:
    virtual void run() = 0;

   protected:
    ~Deferred() = default;
  };
  [[gnu::tls_model(
      "initial-exec")]] static constinit thread_local Deferred* deferred;
  Runner waiting_collectives_of(dw_comm* comm) const;
  Runner waiting_messages_of(dw_comm* comm) const;
  Runner any_of(dw_comm* comm) const;
  // Of operations on windows whose caller waits, and what it knows a window as.
  Runner waiting_windows_of(dw_comm* comm) const;
  dw_window* waiting_window_of(dw_window* window) const;

  // The slot, for one set at a time; a decorator sees to that itself. Does not
  // wait for a group that is being built. [any]
  int32_t submit_group(absl::Span<const dw_group_item> items, dw_error* error);

  // Whether operations may be put on streams of its device.
  bool has_streams() const;
  // Whether one thread may submit what does not wait while another one's call
  // on the same communicator waits.
  bool submits_beside() const;

  // Lets the backend work, unless another thread does. Whether operations may
  // need to be asked again: false when it completes them in threads of its own.
  // [any]
  bool progress() const;
  // Held around every slot that takes one thread at a time per instance.
  base::Mutex& calls() ABSL_LOCK_RETURNED(calls_) { return calls_; }

  // In a child of the process that opened it.
  bool is_of_parent() const { return process_.is_of_parent(); }
  Device device() const { return device_; }
  const Capabilities& capabilities() const { return capabilities_; }

 private:
  BackendInstance(plugin::BackendPtr table, Device device);
  // Whether the decorator is all that stands before the backend: what writes
  // calls down has to see each of them.
  bool may_pass_by() const { return composed_ && !traced_; }
  bool windows_pass_by() const;
  Runner below(dw_comm* comm) const;

  const base::ForkMark process_;
  const plugin::BackendPtr table_;
  plugin::BackendPtr serving_;
  bool composed_ = false, traced_ = false;
  const Device device_;
  dw_host_api host_;
  dw_backend* backend_ = nullptr;
  Capabilities capabilities_;
  mutable base::Mutex calls_;
  base::Mutex sets_;
};

// The error of a failed call into a backend: reason and text as it gave them.
ErrorInfo backend_error(int32_t code, const dw_error& error,
                        absl::string_view backend);
// The other way.
dw_error abi_error(const ErrorInfo& info);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_
