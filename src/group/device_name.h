// The names of device types in backend strings and messages.
#ifndef DISTWRAP_SRC_GROUP_DEVICE_NAME_H_
#define DISTWRAP_SRC_GROUP_DEVICE_NAME_H_

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>

namespace distwrap::group {

// "cuda"; "device type 7" for a type without a name.
std::string device_name(int32_t device_type);
// The DLPack code of a name such as "cuda".
std::optional<int32_t> device_of_name(absl::string_view name);
// "cpu, cuda, mtia, xpu".
std::string known_devices();

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_DEVICE_NAME_H_
