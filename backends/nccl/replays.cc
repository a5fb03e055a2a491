#include "replays.h"

#include "watch.h"

#include <new>

namespace nccl_backend {
namespace {

constexpr size_t kPage = 4096;

enum : uint32_t { kEnded = 0, kBegun = 1, kSeen = 2 };

int write(const Driver& driver, CUstream_st* stream, Replays::Word* word,
          uint32_t value) {
  return driver.cuStreamWriteValue32_v2(
      stream, reinterpret_cast<CUdeviceptr>(word), value, 0);
}

}  // namespace

int Replays::begin(const Driver& driver, CUstream_st* stream, uint16_t kind,
                   uint64_t seq, int64_t limit_ns, Word** word) {
  static_assert(sizeof(Word) == sizeof(uint32_t));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (left_ == 0) {
    void* page = nullptr;
    const int result = driver.cuMemHostAlloc(
        &page, kPage, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result != CUDA_SUCCESS) return result;
    pages_.push_back(page);
    left_ = kPage / sizeof(Word);
  }
  *word = new (static_cast<Word*>(pages_.back()) + --left_) Word(kEnded);
  watched_.push_back({*word, kind, seq, limit_ns, 0});
  return write(driver, stream, *word, kBegun);
}

int Replays::end(const Driver& driver, CUstream_st* stream, Word* word) {
  return write(driver, stream, word, kEnded);
}

std::string Replays::look(int64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Watched& one : watched_) {
    uint32_t value = kBegun;
    // The device may end the replay meanwhile: its zero stays.
    if (one.word->compare_exchange_strong(value, kSeen)) one.since_ns = now_ns;
    if (value != kSeen || one.limit_ns == 0 ||
        now_ns - one.since_ns < one.limit_ns)
      continue;
    return "a replay of the captured " + operation_name(one.kind, one.seq) +
           " " + running_for(now_ns - one.since_ns);
  }
  return "";
}

void Replays::free(const Driver& driver) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (void* const page : pages_) driver.cuMemFreeHost(page);
  pages_.clear();
  watched_.clear();
  left_ = 0;
}

}  // namespace nccl_backend
