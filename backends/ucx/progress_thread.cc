#include "progress_thread.h"

#include "sdk/thread.h"

namespace ucx_backend {
namespace {

// The time after which this thread notices that other threads have left the
// worker.
constexpr int kNapMs = 2;

}  // namespace

int32_t ProgressThread::start(dw_error* error) {
  std::lock_guard<std::mutex> lock(starting_);
  if (started()) return DW_OK;
  const int32_t code = dw_sdk::start_thread(
      &thread_, "dw-ucx", [this] { loop(); }, error);
  started_.store(code == DW_OK, std::memory_order_release);
  return code;
}

void ProgressThread::finish() {
  if (!thread_.joinable()) return;
  ending_.store(true, std::memory_order_release);
  bell_.ring();
  thread_.join();
}

void ProgressThread::loop() {
  Worker& worker = *worker_;
  uint64_t seen = 0;
  while (!ending_.load(std::memory_order_acquire)) {
    int descriptor = -1;
    int most_ms = kNapMs;
    // This thread's own visits do not count.
    const bool alone = asked_.exchange(false, std::memory_order_acq_rel) ||
                       worker.visits() == seen;
    if (alone) {
      Worker::Hold hold(worker, Worker::Hold::Own{});
      if (hold.owns()) {
        while (worker.progress() != 0) hold.let_others();
        if (worker.is_open() && !worker.arm()) {
          seen = worker.visits();
          continue;
        }
        descriptor = worker.descriptor();
        worker.doze(&bell_);
        most_ms = -1;
      }
    }
    seen = worker.visits();
    bell_.sleep(descriptor, most_ms);
  }
}

}  // namespace ucx_backend
