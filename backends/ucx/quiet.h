// UCX prints log lines, changes signal handlers of the process when it is
// opened, and starts threads. A plugin must do none of that to the program.
#ifndef DISTWRAP_BACKENDS_UCX_QUIET_H_
#define DISTWRAP_BACKENDS_UCX_QUIET_H_

#include "distwrap/abi/plugin.h"

#include <csignal>

namespace ucx_backend {

struct Library;

// Log lines of UCX in threads inside this backend go to the host, at level
// debug, because errors report the facts. Other users of UCX in this process
// keep their log.
void take_log(const Library& library);

// In this scope the thread's log lines go to that host.
class LogTo {
 public:
  explicit LogTo(const dw_host_api* host);
  ~LogTo();
  LogTo(const LogTo&) = delete;
  LogTo& operator=(const LogTo&) = delete;

 private:
  const dw_host_api* const before_;
};

// Restores the signal handlers that were changed in its scope.
class SignalHandlersKept {
 public:
  SignalHandlersKept();
  ~SignalHandlersKept();
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

 private:
  static constexpr int kSignals = 65;
  struct sigaction before_[kSignals];
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_QUIET_H_
