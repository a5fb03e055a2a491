#include "store/job_name.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

namespace distwrap::store {

uint64_t stable_hash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::string meeting_name(absl::string_view kind, absl::string_view text) {
  constexpr size_t kShown = 16;
  std::string name(kind);
  if (!text.empty()) name += '-';
  for (const char c : text.substr(0, kShown))
    name += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return absl::StrCat(name, "-",
                      absl::Hex(stable_hash(absl::StrCat(
                                    kind, absl::string_view("\0", 1), text)),
                                absl::kZeroPad16));
}

std::string job_name(const LaunchInfo& info) {
  if (info.job_id.empty()) return {};
  return meeting_name(info.launcher,
                      absl::StrCat(info.job_id, "/", info.restarts));
}

}  // namespace distwrap::store
