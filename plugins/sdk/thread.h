// Starts a thread that belongs to a library: with a name for debuggers, and
// without the signals of the program, whose handlers run in the program's own
// threads. A crash in the thread is still the program's to handle.
//
//   if (int32_t code = dw_sdk::start_thread(
//           &thread_, "dw-shm", [this] { loop(); }, error))
//     return code;
#ifndef DISTWRAP_PLUGINS_SDK_THREAD_H_
#define DISTWRAP_PLUGINS_SDK_THREAD_H_

#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/limits.h"

#include <csignal>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>

namespace dw_sdk {

// While it lives, the calling thread and the threads that it starts receive no
// signal that another thread could take.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    // These are caused by the thread's own instructions.
    for (const int own :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&blocked, own);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// The system refused the thread `name`: the number of threads or the address
// space, which pthread_create does not tell apart, is used up.
inline int32_t fail_thread(const char* name, int cause, dw_error* error) {
  char limits[DW_LIMITS_TEXT], text[sizeof error->text];
  uint64_t stack = uint64_t{8} << 20;
  struct rlimit stack_limit;
  if (getrlimit(RLIMIT_STACK, &stack_limit) == 0 &&
      stack_limit.rlim_cur != RLIM_INFINITY)
    stack = stack_limit.rlim_cur;
  const bool is_memory = dw_address_space_is_full(stack) != 0;
  if (is_memory)
    dw_say_memory_limits(limits, sizeof limits);
  else
    dw_say_thread_limits(limits, sizeof limits);
  std::snprintf(text, sizeof text,
                "the thread %s cannot be started (errno %d)%s%s", name, cause,
                limits[0] == '\0' ? "" : "; limit: ", limits);
  return dw_fail(error, DW_RESOURCE_EXHAUSTED,
                 is_memory ? DW_REASON_OUT_OF_MEMORY : DW_REASON_RESOURCE_LIMIT,
                 -1, cause, text);
}

// `name` has 15 characters at most. DW_OK, or `*thread` is as it was and
// `error` says why.
template <class Body>
int32_t start_thread(std::thread* thread, const char* name, Body body,
                     dw_error* error) {
  try {
    const SignalsBlocked blocked;
    *thread = std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
    return DW_OK;
  } catch (const std::system_error& refused) {
    return fail_thread(name, refused.code().value(), error);
  } catch (...) {
    return error_of_exception(name, error);
  }
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_THREAD_H_
