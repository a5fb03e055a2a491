// Backend strings: the backend of each device.
//
//   backend := name | pair (',' pair)*      pair := device ':' name
//   name    := plain | plain '+' plain      spaces around parts do not count
//
// Threads: pure functions over a registry.
#ifndef DISTWRAP_SRC_GROUP_BACKEND_STRING_H_
#define DISTWRAP_SRC_GROUP_BACKEND_STRING_H_

#include "distwrap/group.h"
#include "plugin/registry.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::group {

// One device of a backend string.
struct BackendChoice {
  std::string device;
  int32_t device_type = 0;
  std::string spelled;  // "ncclx", "auto"
  std::string backend;  // "nccl"; after `settle_backends` it exists
};

// Parses a backend string; choices are in the order of the text. It loads no
// backend, except a plugin whose name stands alone, to learn its devices.
// Errors: kBackendMissing, kBackendFormat, kDeviceUnknown, kDeviceDuplicate,
// kBackendUnknown; for such a plugin also the registry's.
absl::StatusOr<std::vector<BackendChoice>> parse_backends(
    absl::string_view text, plugin::Registry& registry);

// For a group with ranks on several hosts: kUnsupported, with a way out, when
// one of these reaches no other host or, where data in the clear is not
// allowed, does not protect its data (DW_BACKEND_PROTECTS_DATA).
// Also the registry's errors.
absl::Status check_reach(const std::vector<BackendChoice>& choices,
                         bool one_host, bool clear_data,
                         plugin::Registry& registry);

// Loads all chosen backends. Errors: kPluginNotFound for a known backend that
// is not installed, kUnsupported for two backends joined by '+',
// kNoCommunicator for a backend that does not serve its device, and the
// registry's.
absl::Status settle_backends(const std::vector<BackendChoice>& choices,
                             plugin::Registry& registry);

// Replaces "auto". For host memory it becomes loopback for one rank, shm for up
// to 128 ranks that are all on one host, and gloo for all others.
// `between`: the backend of host memory between hosts.
void resolve_auto(std::vector<BackendChoice>* choices, int size, bool one_host,
                  const plugin::Registry& registry,
                  absl::string_view between = "gloo");
// Whether one of the choices is still `auto` for host memory.
bool has_auto(const std::vector<BackendChoice>& choices);

// Host memory has no index.
inline Device device_of(const BackendChoice& choice, int device_id) {
  return {choice.device_type, choice.device_type == kCpu.type ? 0 : device_id};
}

// The choices as the user spelled them, for Group::device_backends.
std::vector<DeviceBackend> spelled_backends(
    const std::vector<BackendChoice>& choices);
// "cpu:gloo,cuda:nccl"; for a single backend of host memory just its name.
std::string terms_of(const std::vector<BackendChoice>& choices);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_BACKEND_STRING_H_
