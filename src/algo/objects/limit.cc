#include "algo/objects/limit.h"

#include "distwrap/object.h"

#include <atomic>

namespace distwrap::objects {
namespace {

std::atomic<uint64_t> limit{kObjectMaxBytes};

}  // namespace

uint64_t max_bytes() { return limit.load(std::memory_order_relaxed); }

void set_max_bytes(uint64_t bytes) {
  limit.store(bytes, std::memory_order_relaxed);
}

}  // namespace distwrap::objects
