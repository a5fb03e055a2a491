// An opened backend: its instance for one session and device, with the host
// table that it calls back into.
//
// Threads: constant after `open`; the host table's functions run on any thread.
// Ownership: counted; communicators hold it, and the last one closes it.
#ifndef DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_
#define DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_

#include "comm/capabilities.h"
#include "distwrap/status.h"
#include "distwrap/types.h"
#include "plugin/backend_table.h"

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::comm {

using Hints = std::map<std::string, std::string>;

// The hints in the form of the ABI, borrowing their text.
std::vector<dw_hint> hints_of(const Hints& hints);

inline dw_str abi_string(absl::string_view text) {
  return {text.data(), text.size()};
}

class BackendInstance {
 public:
  // Errors: kInvalidArgument for a hint that the backend does not know,
  // kNoCommunicator for a device type that it does not serve, its own.
  static absl::StatusOr<std::shared_ptr<BackendInstance>> open(
      plugin::BackendPtr backend, Device device, const Hints& hints);
  ~BackendInstance();
  BackendInstance(const BackendInstance&) = delete;
  BackendInstance& operator=(const BackendInstance&) = delete;

  const dw_backend_api& api() const { return table_->api(); }
  const std::string& name() const { return table_->name(); }
  dw_backend* backend() const { return backend_; }
  Device device() const { return device_; }
  const Capabilities& capabilities() const { return capabilities_; }

 private:
  BackendInstance(plugin::BackendPtr table, Device device);

  const plugin::BackendPtr table_;
  const Device device_;
  dw_host_api host_;
  dw_backend* backend_ = nullptr;
  Capabilities capabilities_;
};

// The error of a failed call into a backend: reason and text as it gave them.
ErrorInfo backend_error(int32_t code, const dw_error& error,
                        absl::string_view backend);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BACKEND_INSTANCE_H_
