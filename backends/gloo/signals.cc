#include "signals.h"

#include <ctime>

namespace gloo_backend {
namespace {

sigset_t only_pipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

bool pipe_signal_is_deadly() {
  struct sigaction now;
  return sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
}

PipeSignalBlocked::PipeSignalBlocked(bool needed) {
  if (!needed) return;
  const sigset_t pipe = only_pipe();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  // A thread that blocks SIGPIPE itself may have one of its own pending.
  unblock_ = sigismember(&before, SIGPIPE) == 0;
}

PipeSignalBlocked::~PipeSignalBlocked() {
  if (!unblock_) return;
  const sigset_t pipe = only_pipe();
  const timespec at_once = {0, 0};
  while (swallow_ && sigtimedwait(&pipe, nullptr, &at_once) == SIGPIPE) {
  }
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
}

}  // namespace gloo_backend
