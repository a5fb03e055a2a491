// Names of device types, as backend strings and messages write them.
#ifndef DISTWRAP_SRC_GROUP_DEVICE_NAME_H_
#define DISTWRAP_SRC_GROUP_DEVICE_NAME_H_

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>

namespace distwrap::group {

// "cuda"; "device type 7" in its place for one without a name.
std::string device_name(int32_t device_type);
// DLPack's code of "cuda".
std::optional<int32_t> device_of_name(absl::string_view name);
// "cpu, cuda, mtia, xpu".
std::string known_devices();

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_DEVICE_NAME_H_
