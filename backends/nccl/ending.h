// NCCL's calls that end a communicator. They may take long, or hang: finalize
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
#include <utility>
#include <vector>

namespace nccl_backend {

// One communicator's end. Threads: any.
class Ending {
 public:
  // Whether it has ended, at the latest after `patience`.
  bool wait(std::chrono::nanoseconds patience);
  // Whether nothing is left but to free what NCCL has on this rank.
  bool wait_until_settled(std::chrono::nanoseconds patience);
  void settled();
  void ended();
  // NCCL has refused to end the communicator.
  void leave_behind();
  bool is_left_behind();

 private:
  enum class State { kRuns, kSettled, kEnded };
  bool wait_for(State state, std::chrono::nanoseconds patience);
  void reach(State state);

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kRuns;
  bool left_behind_ = false;
};

// All ends of an instance. Threads: any.
class Endings {
 public:
  // Runs `body` in a thread of its own. When no thread can be started, in this
  // one.
  std::shared_ptr<Ending> begin(std::function<void(Ending&)> body) {
    const std::shared_ptr<Ending> ending = add();
    run(ending, std::move(body));
    return ending;
  }
  // The two steps of `begin`.
  std::shared_ptr<Ending> add();
  void run(const std::shared_ptr<Ending>& ending,
           std::function<void(Ending&)> body);
  // Waits for all of them, at the latest until `patience` has passed. Returns
  // how many are left behind.
  size_t wait_for_all(std::chrono::nanoseconds patience);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Ending>> all_;
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_ENDING_H_
