// Ranks of one host may write to each other's memory by the kernel, without the
// owner's help. So that nothing is written after the window's end, whoever is
// about to do so says that he is inside, and then looks whether it is closed.
#include "backend.h"
#include "sdk/fail.h"
#include "window.h"

#include <cerrno>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_backend {
namespace {

bool has_died(const Owner& owner) {
  if (owner.pid_space != this_process().pid_space) return false;
  const auto fd = static_cast<int>(
      syscall(SYS_pidfd_open, static_cast<pid_t>(owner.pid), 0));
  if (fd < 0) return errno == ESRCH;
  pollfd exited = {fd, POLLIN, 0};
  const bool dead = poll(&exited, 1, 0) == 1;
  ::close(fd);
  return dead;
}

}  // namespace

Owner this_process() {
  struct stat space = {};
  if (stat("/proc/self/ns/pid", &space) != 0) space.st_ino = 0;
  return {getpid(), space.st_ino};
}

int32_t wait_for_writers(Window& window, int64_t deadline_ns, dw_error* error) {
  const Comm& comm = *window.comm;
  for (int rank = 0; rank < comm.size; ++rank) {
    const std::atomic<uint64_t>& inside = window.mine().writers[rank].value;
    while (inside.load(std::memory_order_seq_cst) != 0) {
      if (has_died(window.parts[static_cast<size_t>(rank)].owner)) break;
      if (deadline_ns != 0 && comm.host->now_ns(comm.host->self) > deadline_ns)
        return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, rank,
                       0, "ucx: a rank is still writing to the window");
      sched_yield();
    }
  }
  return DW_OK;
}

}  // namespace ucx_backend
