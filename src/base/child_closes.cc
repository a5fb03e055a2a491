#include "base/child_closes.h"

#include "sdk/descriptor_set.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace distwrap::base {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

struct Mapping {
  std::atomic<void*> pages;
  std::atomic<size_t> bytes;  // 0: unused, or just being written
};

// constinit, so that no first use initializes it in the child of a fork.
constinit dw_sdk::DescriptorSet marked;
constinit std::array<Mapping, 64> mappings{};

// Runs in the child, which has one thread. It makes system calls only, because
// other threads of the parent may have held any lock.
class Closing {
 public:
  Closing() : nothing_(open_nothing()), is_own_(nothing_ >= 0) {}
  ~Closing() {
    if (is_own_) close(nothing_);
  }
  void take_place_of(int descriptor) {
    if (nothing_ >= 0) {
      if (dup3(nothing_, descriptor, O_CLOEXEC) < 0) close(descriptor);
      return;
    }
    // The table of file descriptors was full; closing this one makes room.
    close(descriptor);
    nothing_ = open_nothing();
  }

 private:
  static int open_nothing() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
  int nothing_;
  const bool is_own_;
};

void let_go() {
  const int before = errno;
  {
    Closing closing;
    marked.take_all([&](int descriptor) { closing.take_place_of(descriptor); });
  }
  for (Mapping& mapping : mappings) {
    const size_t bytes = mapping.bytes.exchange(0, kRelaxed);
    if (bytes != 0)
      mmap(mapping.pages.load(kRelaxed), bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    mapping.pages.store(nullptr, kRelaxed);
  }
  errno = before;
}

// Registered at load time: a child that is forked while another thread
// registers it would wait for that thread.
[[maybe_unused]] const int kForksWatched =
    pthread_atfork(nullptr, nullptr, let_go);

}  // namespace

void ChildCloses::add(int descriptor) { marked.add(descriptor); }

void ChildCloses::remove(int descriptor) { marked.remove(descriptor); }

void ChildCloses::add(void* pages, size_t bytes) {
  for (Mapping& mapping : mappings) {
    void* none = nullptr;
    if (!mapping.pages.compare_exchange_strong(none, pages)) continue;
    mapping.bytes.store(bytes);
    return;
  }
}

void ChildCloses::remove(void* pages) {
  for (Mapping& mapping : mappings)
    if (mapping.pages.load() == pages) {
      mapping.bytes.store(0);
      mapping.pages.store(nullptr);
    }
}

}  // namespace distwrap::base
