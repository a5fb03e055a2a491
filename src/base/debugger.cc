#include "base/debugger.h"

#include "base/read_file.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::base {

bool is_traced(pid_t pid) {
  constexpr absl::string_view kTracer = "TracerPid:";
  const std::string status =
      read_file(absl::StrCat("/proc/", pid, "/status")).value_or("");
  for (absl::string_view left = status; !left.empty();)
    if (const absl::string_view line = take_line(&left);
        absl::StartsWith(line, kTracer))
      return line.find_first_not_of(" \t0", kTracer.size()) !=
             absl::string_view::npos;
  return false;
}

}  // namespace distwrap::base
