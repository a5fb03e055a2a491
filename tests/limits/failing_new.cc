#include "failing_new.h"

#include "distwrap/abi/note.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <new>
#include <unistd.h>

namespace distwrap::testing {
namespace {

// A sanitizer adds a frame of its own to a backtrace.
constexpr int kFrames = 48,
              kOwnFrames = DW_SANITIZER == DW_SANITIZER_NONE ? 3 : 4;

std::atomic<int64_t> left{0};  // 0: not armed
std::atomic<int64_t> armed_at{0}, seen{0};
std::atomic<bool> has_failed{false};
void* frames[kFrames];
int n_frames = 0;
constinit thread_local int exempt = 0;

// Whether the allocation at hand is made by this program: engines, and their
// threads, may not survive one of theirs that fails. Templates and strings of
// the standard library are whose who calls them.
bool is_ours() {
  Dl_info own = {}, caller = {};
  dladdr(reinterpret_cast<const void*>(&FailingNew::arm), &own);
  for (int i = 0; i < n_frames; ++i) {
    if (dladdr(frames[i], &caller) == 0) return false;
    // Behind this file's own frames.
    if (i < kOwnFrames || std::strstr(caller.dli_fname, "libstdc++") != nullptr)
      continue;
    return caller.dli_fbase == own.dli_fbase ||
           std::strstr(caller.dli_fname, "libabsl") != nullptr;
  }
  return false;
}

bool fails_now() {
  if (left.load(std::memory_order_relaxed) <= 0 || exempt > 0) return false;
  if (left.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  ++exempt;
  n_frames = backtrace(frames, kFrames);
  const bool ours = is_ours();
  --exempt;
  if (!ours) {
    left.store(1, std::memory_order_release);  // the next one
    return false;
  }
  has_failed.store(true, std::memory_order_release);
  return true;
}

void* allocate(size_t bytes, size_t alignment) {
  if (fails_now()) throw std::bad_alloc();
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t))
    memory = std::malloc(bytes == 0 ? 1 : bytes);
  else if (posix_memalign(&memory, alignment, bytes) != 0)
    memory = nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Memory that is freed is overwritten, so that nobody reads it unnoticed.
void release(void* memory) {
  if (memory == nullptr) return;
  std::memset(memory, 0xdb, malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void FailingNew::arm(int64_t k) {
  // The first call of backtrace allocates.
  void* one[1];
  backtrace(one, 1);
  n_frames = 0;
  has_failed.store(false, std::memory_order_release);
  armed_at.store(k, std::memory_order_release);
  left.store(k, std::memory_order_release);
}

bool FailingNew::disarm() {
  seen.store(armed_at.load() - left.exchange(0, std::memory_order_acq_rel));
  return has_failed.load(std::memory_order_acquire);
}

int64_t FailingNew::counted() { return seen.load(); }

void FailingNew::show() {
  backtrace_symbols_fd(frames, n_frames, STDERR_FILENO);
}

FailingNew::Exempt::Exempt() { ++exempt; }
FailingNew::Exempt::~Exempt() { --exempt; }

}  // namespace distwrap::testing

void* operator new(size_t bytes) {
  return distwrap::testing::allocate(bytes, 1);
}
void* operator new[](size_t bytes) {
  return distwrap::testing::allocate(bytes, 1);
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept try {
  return distwrap::testing::allocate(bytes, 1);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return distwrap::testing::allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t&) noexcept try {
  return distwrap::testing::allocate(bytes, static_cast<size_t>(alignment));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return distwrap::testing::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  distwrap::testing::release(memory);
}
void operator delete[](void* memory) noexcept {
  distwrap::testing::release(memory);
}
void operator delete(void* memory, size_t) noexcept {
  distwrap::testing::release(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  distwrap::testing::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  distwrap::testing::release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  distwrap::testing::release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  distwrap::testing::release(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  distwrap::testing::release(memory);
}
