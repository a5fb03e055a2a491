// Which process somebody is, so that others can tell whether it still lives.
//
// Threads: values and pure questions.
//
//   std::string text = ProcessIdentity::of_self().encode();
//   if (auto who = ProcessIdentity::decode(text); who && !who->may_live()) ...
#ifndef DISTWRAP_SRC_STORE_PROCESS_IDENTITY_H_
#define DISTWRAP_SRC_STORE_PROCESS_IDENTITY_H_

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace distwrap::store {

struct ProcessIdentity {
  pid_t pid = 0;
  int64_t start_ticks = 0;  // numbers of processes are used again
  uint64_t name_space = 0;  // in which pid is the number

  static ProcessIdentity of_self();
  // Nothing when there is no such process here.
  static std::optional<ProcessIdentity> of(pid_t pid);
  // "31000 123456 4026531836".
  std::string encode() const;
  static std::optional<ProcessIdentity> decode(absl::string_view text);

  // False only when it is known to have ended.
  bool may_live() const;
  friend bool operator==(const ProcessIdentity&,
                         const ProcessIdentity&) = default;
};

// 0 when it cannot be told.
pid_t parent_of(pid_t pid);

// On the clock that runs from the boot of the host.
int64_t boot_clock_ns();
int64_t own_start_ns();

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_PROCESS_IDENTITY_H_
