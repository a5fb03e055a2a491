#include "reach.h"

#include <errno.h>
#include <sys/uio.h>

namespace shm_backend {
namespace {

ssize_t read_process(int32_t process, void* to, uint64_t from, size_t bytes) {
  const iovec here = {to, bytes};
  const iovec there = {reinterpret_cast<void*>(static_cast<uintptr_t>(from)),
                       bytes};
  return process_vm_readv(process, &here, 1, &there, 1, 0);
}

// Loads that follow are not done before those of the kernel. (A fence of C++ is
// one that ThreadSanitizer does not know.)
void keep_order() {
#if defined(__aarch64__)
  asm volatile("dmb ishld" ::: "memory");
#else
  asm volatile("" ::: "memory");  // the processor keeps the order of loads
#endif
}

}  // namespace

bool Reach::works() {
  if (way_ == Way::kUnknown) [[unlikely]]
    way_ = try_out() ? Way::kKernel : Way::kNone;
  return way_ != Way::kNone;
}

// Its token stands in its area, wherever it has that: at the same place of
// another process, or of one that has the number in another pid namespace, are
// other bytes or none.
bool Reach::try_out() {
  const Area& area = room_->area(peer_);
  process_ = area.process.load(std::memory_order_relaxed);
  uint64_t token = 0;
  return process_ > 0 &&
         read_process(process_, &token,
                      area.itself.load(std::memory_order_relaxed),
                      sizeof token) == sizeof token &&
         token == area.token.load(std::memory_order_relaxed) && token != 0;
}

Reach::Got Reach::read(void* to, uint64_t from, size_t bytes) const {
  const ssize_t n = read_process(process_, to, from, bytes);
  keep_order();
  if (n == static_cast<ssize_t>(bytes)) return Got::kAll;
  return n < 0 && errno == ESRCH ? Got::kGone : Got::kNonsense;
}

}  // namespace shm_backend
