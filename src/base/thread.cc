#include "base/thread.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "sdk/thread.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::base {

absl::StatusOr<std::thread> start_thread(const char* name,
                                         std::function<void()> body) {
  std::thread thread;
  dw_error error = {};
  if (dw_sdk::start_thread(&thread, name, std::move(body), &error) == DW_OK)
    return thread;
  return guarded("", [&]() -> absl::StatusOr<std::thread> {
    const bool is_memory = error.reason == DW_REASON_OUT_OF_MEMORY;
    char limits[DW_LIMITS_TEXT];
    if (is_memory)
      dw_say_memory_limits(limits, sizeof limits);
    else
      dw_say_thread_limits(limits, sizeof limits);
    return make_error(
        {.reason = is_memory ? Reason::kOutOfMemory : Reason::kResourceLimit,
         .what = absl::StrCat("the thread ", name, " cannot be started"),
         .setting = limits,
         .cause = errno_text(error.native),
         .next_step = limits[0] != '\0'
                          ? absl::StrCat("raise ", limits)
                          : "end other processes and threads of this user"});
  });
}

}  // namespace distwrap::base
