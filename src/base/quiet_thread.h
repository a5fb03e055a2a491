// A thread of the library's own in which no handler of the program runs: its
// signals are for its own threads. A crash in here is still the program's to
// handle.
//
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_QUIET_THREAD_H_
#define DISTWRAP_SRC_BASE_QUIET_THREAD_H_

#include <functional>
#include <thread>

namespace distwrap::base {

// Throws std::system_error when there can be no further thread.
std::thread quiet_thread(std::function<void()> body);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_QUIET_THREAD_H_
