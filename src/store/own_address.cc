#include "store/own_address.h"

#include "store/network_address.h"

#include <absl/strings/strip.h>

#include <algorithm>
#include <array>
#include <string>
#include <unistd.h>
#include <vector>

namespace distwrap::store {
namespace {

std::string own_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

bool is_own_address(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  if (host == "localhost" || host == own_name()) return true;
  const absl::StatusOr<std::vector<NetworkAddress>> found =
      resolve({std::string(host), 1});
  return found.ok() &&
         std::any_of(found->begin(), found->end(),
                     [](const NetworkAddress& one) { return one.is_own(); });
}

}  // namespace distwrap::store
