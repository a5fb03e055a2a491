#include "host.h"

#include "algo/reduce_kernels.h"
#include "sdk/moe_sums.h"

#include <cstdlib>

bool dw_work::wait(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return completed_.wait_for(lock, limit, [this] { return completions_ > 0; });
}

int dw_work::completions() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return completions_;
}

int32_t dw_work::code() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return code_;
}

dw_error dw_work::error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

void dw_work::complete(int32_t code, const dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++completions_;
  code_ = code;
  if (error != nullptr) error_ = *error;
  completed_.notify_all();
}

namespace distwrap::conformance {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const dw_host_api& host_table() {
  static const dw_host_api table = {
      sizeof(dw_host_api),
      DW_ABI_MAJOR,
      DW_ABI_MINOR,
      nullptr,
      [](dw_work* work, int32_t code, const dw_error* error) {
        work->complete(code, error);
      },
      [](void*, int32_t, dw_str) {},
      [](void*) { return now_ns(); },
      [](void*) {},
      [](void*, uint64_t bytes) {
        return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
      },
      [](void*, void* memory) { std::free(memory); },
      [](void*, dw_dtype dtype, uint16_t reduce) {
        return algo::reduce_kernel(dtype, reduce);
      },
      [](void*, dw_str id, uint32_t) -> const void* {
        return dw_str_equal(id, dw_sdk::kMoeSumId) != 0 ? &algo::row_sums()
                                                        : nullptr;
      },
      [](dw_trace* trace) { trace->under_way.fetch_add(1); },
      [](dw_trace* trace) { trace->waits.fetch_add(1); },
      [](dw_work* work) { work->begin(); }};
  return table;
}

}  // namespace distwrap::conformance
