// A small host: the table that a backend calls, and its work cells.
#ifndef DISTWRAP_TESTS_CONFORMANCE_HOST_H_
#define DISTWRAP_TESTS_CONFORMANCE_HOST_H_

#include "distwrap/abi/plugin.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

// A completion cell; any thread may call `complete`.
struct dw_work {
 public:
  // Returns false when there is no completion in time.
  bool wait(std::chrono::milliseconds limit);
  int completions() const;
  int32_t code() const;
  dw_error error() const;

  void complete(int32_t code, const dw_error* error);
  void begin() { begins_.fetch_add(1); }
  int begins() const { return begins_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable completed_;
  int completions_ = 0;
  std::atomic<int> begins_ = 0;
  int32_t code_ = DW_OK;
  dw_error error_ = {};
};

// How often a backend has told of the calls that carry it.
struct dw_trace {
  std::atomic<uint64_t> under_way = 0, waits = 0;
};

namespace distwrap::conformance {

// Constant; used by every rank.
const dw_host_api& host_table();

int64_t now_ns();

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_HOST_H_
