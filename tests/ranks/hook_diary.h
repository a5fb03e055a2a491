// Hooks that record their calls, for tests.
#ifndef DISTWRAP_TESTS_RANKS_HOOK_DIARY_H_
#define DISTWRAP_TESTS_RANKS_HOOK_DIARY_H_

#include "distwrap/hooks.h"
#include "facade/binding.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::testing {

// The thread's world as a handle.
inline Group world_of_thread() { return facade::session_of_thread().world(); }

// The calls that hooks of one rank saw.
class Diary {
 public:
  void write(std::string line) {
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }
  size_t size() {
    std::lock_guard lock(mutex_);
    return lines_.size();
  }
  void wait_for(size_t n) {
    for (int i = 0; i < 60'000 && size() < n; ++i)
      absl::SleepFor(absl::Milliseconds(1));
    ASSERT_GE(size(), n);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

inline Hooks writing(Diary& diary, const std::string& name = "") {
  return {
      .pre =
          [&diary, name](const HookedCall& call) {
            diary.write(absl::StrCat(name, "pre ", call.op));
            return absl::OkStatus();
          },
      .post =
          [&diary, name](const HookedCall& call, const absl::Status& status) {
            diary.write(absl::StrCat(
                name, "post ", call.op, " ",
                status.ok() ? "ok" : reason_name(error_reason(status))));
          },
      .abort =
          [&diary, name](const BrokenGroup& group, const absl::Status& cause) {
            diary.write(absl::StrCat(name, "abort ", group.name, " ",
                                     reason_name(error_reason(cause))));
          },
      .completion =
          [&diary, name](const HookedCall& call, const absl::Status& status) {
            diary.write(absl::StrCat(
                name, "end ", call.op, " ",
                status.ok() ? "ok" : reason_name(error_reason(status))));
          }};
}

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_HOOK_DIARY_H_
