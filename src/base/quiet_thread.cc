#include "base/quiet_thread.h"

#include <signal.h>
#include <utility>

namespace distwrap::base {
namespace {

// For as long as it lives, nothing reaches the calling thread that another one
// could take, nor those that it starts for all of theirs.
class SignalsAway {
 public:
  SignalsAway() {
    sigset_t away;
    sigfillset(&away);
    // What the thread's own instructions cause.
    for (const int own :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&away, own);
    pthread_sigmask(SIG_BLOCK, &away, &before_);
  }
  ~SignalsAway() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsAway(const SignalsAway&) = delete;
  SignalsAway& operator=(const SignalsAway&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread quiet_thread(std::function<void()> body) {
  const SignalsAway away;
  return std::thread(std::move(body));
}

}  // namespace distwrap::base
