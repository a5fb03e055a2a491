// UCX prints what it finds, takes over signals of the process when it is
// opened, and makes threads. A plugin does none of that.
#ifndef DISTWRAP_BACKENDS_UCX_QUIET_H_
#define DISTWRAP_BACKENDS_UCX_QUIET_H_

#include "distwrap/abi/plugin.h"

#include <csignal>

namespace ucx_backend {

struct Library;

// What UCX logs in a thread of ours goes to the host, at level debug: what it
// finds is told by errors. Other users of UCX in this process keep their log.
void take_log(const Library& library);

// In this scope the thread's log goes to that host.
class LogTo {
 public:
  explicit LogTo(const dw_host_api* host);
  ~LogTo();
  LogTo(const LogTo&) = delete;
  LogTo& operator=(const LogTo&) = delete;

 private:
  const dw_host_api* const before_;
};

// Puts signal handlers back that were changed in its scope.
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

// Around the making of threads, which inherit the mask: signals are for the
// threads of the program.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked();
  ~AllSignalsBlocked();
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_QUIET_H_
