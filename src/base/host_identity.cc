#include "base/host_identity.h"

#include "base/read_file.h"

#include <absl/strings/str_cat.h>

#include <optional>
#include <sys/stat.h>

namespace distwrap::base {

std::string host_identity() {
  const std::optional<std::string> boot =
      read_file("/proc/sys/kernel/random/boot_id");
  struct stat net = {};
  if (!boot.has_value() || boot->empty() ||
      stat("/proc/self/ns/net", &net) != 0)
    return "";
  absl::string_view id = *boot;
  return absl::StrCat(take_line(&id), " ", net.st_dev, " ", net.st_ino);
}

}  // namespace distwrap::base
