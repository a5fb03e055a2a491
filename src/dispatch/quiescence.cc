#include "dispatch/quiescence.h"

#include "distwrap/operator.h"
#include "sdk/process_barrier.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::dispatch {

__thread ThreadKeys thread_keys;

namespace {

struct Threads {
  std::mutex mutex;
  std::vector<const ThreadKeys*> known;
  std::vector<std::function<void()>> retired;
};

Threads& threads() {
  static auto* const all = new Threads;
  return *all;
}

// Registers the word of its thread, and takes it back when the thread ends.
class ThreadWord {
 public:
  ThreadWord() {
    Threads& all = threads();
    const std::lock_guard lock(all.mutex);
    all.known.push_back(&thread_keys);
  }
  ~ThreadWord() {
    Threads& all = threads();
    const std::lock_guard lock(all.mutex);
    std::erase(all.known, &thread_keys);
  }
};

bool fence_all_threads() {
  return dw_sdk::has_process_barrier() && dw_sdk::process_barrier();
}

uint64_t read(const uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

}  // namespace

void CallScope::enter_first() {
  static thread_local ThreadWord word;
  (void)word;
  thread_keys.calls = 1;
}

bool wait_for_calls(Deadline deadline, int* left) {
  if (left != nullptr) *left = -1;
  if (thread_keys.depth != 0 || !fence_all_threads()) return false;
  Threads& all = threads();
  std::vector<std::pair<const ThreadKeys*, uint64_t>> inside;
  {
    const std::lock_guard lock(all.mutex);
    for (const ThreadKeys* thread : all.known) {
      if (read(thread->depth) == 0) continue;
      inside.emplace_back(thread, read(thread->calls));
    }
  }
  while (true) {
    {
      const std::lock_guard lock(all.mutex);
      std::erase_if(inside, [&](const auto& one) {
        return std::find(all.known.begin(), all.known.end(), one.first) ==
                   all.known.end() ||
               read(one.first->calls) != one.second ||
               read(one.first->depth) == 0;
      });
    }
    if (left != nullptr) *left = static_cast<int>(inside.size());
    // Loads of the calls that have ended come before what the waiter does next.
    if (inside.empty()) return fence_all_threads();
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void retire(std::function<void()> free) {
  // Some wait for the next one, since a fence is a system call.
  constexpr size_t kMost = 256;
  Threads& all = threads();
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(all.mutex);
    all.retired.push_back(std::move(free));
    if (all.retired.size() < kMost) return;
    due.swap(all.retired);
  }
  if (wait_for_calls(Deadline::after(absl::ZeroDuration()))) {
    for (const auto& one : due) one();
    return;
  }
  const std::lock_guard lock(all.mutex);
  all.retired.insert(all.retired.end(), std::make_move_iterator(due.begin()),
                     std::make_move_iterator(due.end()));
}

}  // namespace distwrap::dispatch
