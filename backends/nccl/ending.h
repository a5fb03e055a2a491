// NCCL's calls that end a communicator. They may take long, or hang: destroy
// waits for the last captured graph, abort for a stuck network. So each runs in
// a thread of its own, and what never returns is left behind.
#ifndef DISTWRAP_BACKENDS_NCCL_ENDING_H_
#define DISTWRAP_BACKENDS_NCCL_ENDING_H_

#include "distwrap/abi/types.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace nccl_backend {

// One communicator's end. Threads: any.
class Ending {
 public:
  // Whether it has ended, at the latest after `patience`.
  bool wait(std::chrono::nanoseconds patience);
  void ended();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

// All ends of an instance. Threads: any.
class Endings {
 public:
  // Runs `body` in a thread of its own. When no thread can be started, in this
  // one.
  std::shared_ptr<Ending> begin(std::function<void()> body);
  // Waits for all of them, at the latest until `patience` has passed. Returns
  // how many are left behind.
  size_t wait_for_all(std::chrono::nanoseconds patience);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Ending>> all_;
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_ENDING_H_
