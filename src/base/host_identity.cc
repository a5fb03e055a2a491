#include "base/host_identity.h"

#include <absl/strings/str_cat.h>

#include <fstream>
#include <sys/stat.h>

namespace distwrap::base {

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat net = {};
  if (!std::getline(file, boot) || stat("/proc/self/ns/net", &net) != 0)
    return "";
  return absl::StrCat(boot, " ", net.st_dev, " ", net.st_ino);
}

}  // namespace distwrap::base
