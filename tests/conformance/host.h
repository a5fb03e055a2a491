// A small host: the table that a backend calls back into, and its work cells.
#ifndef DISTWRAP_TESTS_CONFORMANCE_HOST_H_
#define DISTWRAP_TESTS_CONFORMANCE_HOST_H_

#include "distwrap/abi/plugin.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

// A completion cell. `complete` may come from any thread.
struct dw_work {
 public:
  // False when there is no completion in time.
  bool wait(std::chrono::milliseconds limit);
  int completions() const;
  int32_t code() const;
  dw_error error() const;

  void complete(int32_t code, const dw_error* error);

 private:
  mutable std::mutex mutex_;
  std::condition_variable completed_;
  int completions_ = 0;
  int32_t code_ = DW_OK;
  dw_error error_ = {};
};

namespace distwrap::conformance {

// Constant; serves every rank.
const dw_host_api& host_table();

int64_t now_ns();

// From now on counts there how often backends say on this thread that an
// operation is under way; NULL: nowhere.
void count_under_way(std::atomic<uint64_t>* count);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_HOST_H_
