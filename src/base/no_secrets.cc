// Stands for secrets.cc in a build without OpenSSL.
#include "base/error.h"
#include "base/secrets.h"

namespace distwrap::base {

absl::Status check_secrets() {
  return make_error(
      {.reason = Reason::kUnsupported,
       .what =
           "this distwrap was built without OpenSSL, so its jobs run on one "
           "host and its plugins cannot be compared with a list of hashes",
       .op = "init",
       .next_step = "build distwrap with DISTWRAP_TLS=ON"});
}

bool random_secret(uint8_t*, size_t) { return false; }

bool derive_secret(const uint8_t*, size_t, absl::string_view, uint8_t*,
                   size_t) {
  return false;
}

std::optional<std::string> sha256_of(std::istream&) { return std::nullopt; }

}  // namespace distwrap::base
