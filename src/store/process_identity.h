// The identity of a process, with which other processes can check whether it
// still lives.
//
// Threads: values and pure functions.
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
  int64_t start_ticks = 0;  // process ids are reused
  uint64_t name_space = 0;  // the PID namespace of `pid`, of which machine

  static ProcessIdentity of_self();
  // The identity of a process; nullopt when it does not exist here.
  static std::optional<ProcessIdentity> of(pid_t pid);
  // The identity as text: "31000 123456 4026531836".
  std::string encode() const;
  static std::optional<ProcessIdentity> decode(absl::string_view text);

  // False only when the process is known to have ended.
  bool may_live() const;
  friend bool operator==(const ProcessIdentity&,
                         const ProcessIdentity&) = default;
};

// The id of the parent process; 0 when it is not known.
pid_t parent_of(pid_t pid);

// Nanoseconds since the boot of the host.
int64_t boot_clock_ns();
int64_t own_start_ns();

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_PROCESS_IDENTITY_H_
