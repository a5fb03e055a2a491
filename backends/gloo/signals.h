// Guards for a thread's signal mask.
//
// Gloo writes to sockets without MSG_NOSIGNAL, so a lost peer would end the
// whole process by SIGPIPE.
#ifndef DISTWRAP_BACKENDS_GLOO_SIGNALS_H_
#define DISTWRAP_BACKENDS_GLOO_SIGNALS_H_

#include <csignal>

namespace gloo_backend {

// Whether SIGPIPE would end the process now.
bool pipe_signal_is_deadly();

// Used in a thread of the program around calls into Gloo; swallows a SIGPIPE
// that they raise. It costs system calls, so it does nothing unless `needed`.
class PipeSignalBlocked {
 public:
  explicit PipeSignalBlocked(bool needed);
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

  // Every write has succeeded, so there is nothing to swallow.
  void all_written() { swallow_ = false; }

 private:
  bool unblock_ = false;
  bool swallow_ = true;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_SIGNALS_H_
