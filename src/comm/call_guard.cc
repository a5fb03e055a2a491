#include "comm/call_guard.h"

#include <time.h>

namespace distwrap::comm {

bool CallGuard::wait_until_left(const void* object, Deadline deadline) {
  ThreadMarks::barrier();
  for (;;) {
    bool inside = false;
    ThreadMarks::visit([&](ThreadMarks& marks) {
      inside |= object_in(marks.call.load(std::memory_order_seq_cst)) == object;
    });
    if (!inside) return true;
    if (deadline.passed()) return false;
    // Rare and short: a call of another thread is about to leave.
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace distwrap::comm
