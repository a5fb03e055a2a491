// Starting a thread that belongs to the library. No handler of the program runs
// in it: its signals are for its own threads. A crash in here is still the
// program's to handle.
//
//   absl::StatusOr<std::thread> thread =
//       base::start_thread("dw-watchdog", [this] { run(); });
//   if (!thread.ok()) return thread.status();
//
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_THREAD_H_
#define DISTWRAP_SRC_BASE_THREAD_H_

#include <absl/status/statusor.h>

#include <functional>
#include <thread>

namespace distwrap::base {

// `name`, of 15 characters at most, is shown by debuggers and in the error.
// `body` does not throw. Errors: kResourceLimit, kOutOfMemory, with the limit
// in force.
absl::StatusOr<std::thread> start_thread(const char* name,
                                         std::function<void()> body);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_THREAD_H_
