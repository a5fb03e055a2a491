// Guards of a thread's signal mask.
//
// Gloo writes to sockets without MSG_NOSIGNAL: a peer that has gone would end
// the whole process by SIGPIPE.
#ifndef DISTWRAP_BACKENDS_GLOO_SIGNALS_H_
#define DISTWRAP_BACKENDS_GLOO_SIGNALS_H_

#include <csignal>

namespace gloo_backend {

// Around the making of a thread, which inherits the mask.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked();
  ~AllSignalsBlocked();
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Whether SIGPIPE would end the process now.
bool pipe_signal_is_deadly();

// In a thread of the program, around calls into Gloo; a SIGPIPE that they raise
// is swallowed. It costs system calls, so it does nothing unless `needed`.
class PipeSignalBlocked {
 public:
  explicit PipeSignalBlocked(bool needed);
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

  // Every write has worked: there is nothing to swallow.
  void all_written() { swallow_ = false; }

 private:
  bool unblock_ = false;
  bool swallow_ = true;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_SIGNALS_H_
