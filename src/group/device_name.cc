#include "group/device_name.h"

#include <absl/strings/str_cat.h>

namespace distwrap::group {
namespace {

struct Row {
  absl::string_view name;
  int32_t type;
};
constexpr Row kRows[] = {
#define DW_DEVICE_NAME(name, type) {name, type},
#include "group/device_name.def"
};

}  // namespace

std::string device_name(int32_t device_type) {
  for (const Row& row : kRows)
    if (row.type == device_type) return std::string(row.name);
  return absl::StrCat("device type ", device_type);
}

std::optional<int32_t> device_of_name(absl::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.type;
  return std::nullopt;
}

std::string known_devices() {
  std::string all;
  for (const Row& row : kRows)
    absl::StrAppend(&all, all.empty() ? "" : ", ", row.name);
  return all;
}

}  // namespace distwrap::group
