// Staging memory of the host, given back at the end of the scope. A short one
// is kept for the next operation.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_SCRATCH_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_SCRATCH_H_

#include "distwrap/abi/plugin.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace distwrap::algo::compose {

// Threads: one at a time.
class ScratchMemory {
 public:
  explicit ScratchMemory(const dw_host_api& host) : host_(host) {}
  ~ScratchMemory() {
    if (kept_ != nullptr) host_.scratch_free(host_.self, kept_);
  }
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  void* take(uint64_t bytes) {
    if (bytes <= kKept && kept_ != nullptr)
      return std::exchange(kept_, nullptr);
    return host_.scratch_alloc(host_.self, std::max(bytes, kKept));
  }
  void give(void* memory, uint64_t bytes) {
    if (bytes <= kKept && kept_ == nullptr)
      kept_ = memory;
    else
      host_.scratch_free(host_.self, memory);
  }

 private:
  static constexpr uint64_t kKept = 8 << 10;
  const dw_host_api& host_;
  void* kept_ = nullptr;  // kKept bytes
};

class Scratch {
 public:
  Scratch(ScratchMemory& memory, uint64_t bytes)
      : memory_(memory),
        bytes_(bytes),
        data_(bytes == 0 ? nullptr : memory.take(bytes)) {}
  ~Scratch() {
    if (data_ != nullptr) memory_.give(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool ok() const { return bytes_ == 0 || data_ != nullptr; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  ScratchMemory& memory_;
  const uint64_t bytes_;
  void* const data_;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_SCRATCH_H_
