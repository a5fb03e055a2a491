// Tells the sanitizers about libraries that are not ours. Every test program
// links this file.
extern "C" {
const char* __asan_default_options();
const char* __lsan_default_options();
const char* __lsan_default_suppressions();

// LeakSanitizer of clang 14 crashes on the thread-local memory that it notes
// for UCX's own thread, when that thread still runs at the end.
const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }

// A report of used suppressions would stand in what tests read.
const char* __lsan_default_options() { return "print_suppressions=0"; }

// UCX keeps memory of a peer that has gone before it could be reached, and the
// worker of a group whose peers are cut off is never freed, as abandon() says.
// The nccl backend leaves words to the graphs of an aborted group. PMIx leaks a
// few bytes.
const char* __lsan_default_suppressions() {
  return "leak:libucs\n"
         "leak:libuct\n"
         "leak:ucx_backend::Worker::abandon\n"
         "leak:nccl_backend::Replays::begin\n"
         "leak:libpmix\n";
}
}
