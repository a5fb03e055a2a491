// How ThreadSanitizer runs in every program of a build with it: linked into all
// of them, so that each works alone and so do those that it starts.
// TSAN_OPTIONS adds to this.
#include <cstdlib>
#include <dlfcn.h>
#include <sys/syscall.h>

extern "C" {
const char* __tsan_default_options();
const char* __tsan_default_suppressions();

__attribute__((visibility("default"))) const char* __tsan_default_options() {
  // Tests fork with threads around, and go on in the child.
  return "die_after_fork=0";
}

// UCX replaces the memory calls of the C library, also where a thread ends that
// ThreadSanitizer has let go of, and takes a lock there: that crashes. It reads
// this when it is opened, which is later.
__attribute__((constructor)) void ucx_replaces_no_memory_calls() {
  setenv("UCX_MEM_EVENTS", "no", 0);
}

// Only what is proven to be a false report about a library that is not
// instrumented; our own code has no line here.
__attribute__((visibility("default"))) const char*
__tsan_default_suppressions() {
  // The destructor of a buffer waits for Gloo's thread to leave these three: it
  // looks at the counter of a shared_ptr that is held around them
  // (gloo/common/memory.h, ShareableNonOwningPtr), and both sides of that
  // counter are inlined where ThreadSanitizer does not look.
  // Likewise while it reads into the memory of such a buffer.
  //
  // An error is counted: who copies it does so in a header, and is seen; who
  // lets go of it counts down in Abseil's library, which is not. So whoever
  // lets go last, and frees it, seems to race with the copying of another
  // thread, or with the reading of its payloads, which are freed by a jump out
  // of the function of that name.
  //
  // UCX hands messages from rank to rank where ThreadSanitizer does not look:
  // what a rank does for another one seems to race with whoever reads the
  // result after the answer, and new memory with its use in an earlier window.
  return "race:gloo::transport::tcp::UnboundBuffer::handleRecvCompletion\n"
         "race:gloo::transport::tcp::UnboundBuffer::handleSendCompletion\n"
         "race:gloo::transport::tcp::UnboundBuffer::signalException\n"
         "race:gloo::transport::tcp::Pair::read\n"
         "race:absl::*Status::Unref\n"
         "race:absl::*status_internal::Payload*DestroyContents\n"
         "race:absl::*Cord::CopyToArraySlowPath\n"
         "race:ucx_backend::hear_atomic\n"
         "race:ucx_backend::Memory::allocate\n"
         "race:ucp_put_handler\n";
}

// libuv closes descriptors by a raw system call, which ThreadSanitizer does not
// see: whoever got the number next raced, so it said, with the server's thread.
// It is told here, as its own interceptor of close() tells it.
void __sanitizer_syscall_pre_impl_close(long fd);

__attribute__((visibility("default"), no_sanitize("thread"))) long syscall(
    long number, long a, long b, long c, long d, long e, long f) {
  using SystemCall = long(long, long, long, long, long, long, long);
  static SystemCall* const real =
      reinterpret_cast<SystemCall*>(dlsym(RTLD_NEXT, "syscall"));
  if (number == SYS_close) __sanitizer_syscall_pre_impl_close(a);
  return real(number, a, b, c, d, e, f);
}
}
