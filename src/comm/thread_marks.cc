#include "comm/thread_marks.h"

#include "base/mutex.h"
#include "sdk/process_barrier.h"

#include <memory>
#include <pthread.h>
#include <vector>

namespace distwrap::comm {
namespace {

// All marks that were ever made.
struct Everybody {
  base::Mutex mutex;
  std::vector<std::unique_ptr<ThreadMarks>> all ABSL_GUARDED_BY(mutex);
  std::vector<ThreadMarks*> free ABSL_GUARDED_BY(mutex);
};

Everybody& everybody() {
  static Everybody* const kAll = new Everybody;  // outlives threads and statics
  return *kAll;
}

}  // namespace

// Returns the marks when their thread ends. Destructors of other thread-local
// objects that run later get marks that belong to no thread.
struct MarksReturn {
  ThreadMarks* marks = nullptr;
  ~MarksReturn() {
    ThreadMarks::mine_ = nullptr;
    if (marks == nullptr) return;
    base::MutexLock lock(everybody().mutex);
    everybody().free.push_back(marks);
  }

  // In the child of a fork only this thread is left. It gets other marks too,
  // so it owns no biased lock that the parent made.
  static int watch_forks() {
    everybody();
    return pthread_atfork(lock, unlock, forget);
  }
  static void forget() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& marks : everybody().all) {
      marks->call.store(0, std::memory_order_relaxed);
      marks->handle.store(0, std::memory_order_relaxed);
      marks->owed = nullptr;
    }
    everybody().free.clear();
    ThreadMarks::mine_ = nullptr;
    everybody().mutex.unlock();
  }
  static void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    everybody().mutex.lock();
  }
  static void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    everybody().mutex.unlock();
  }
};

// Registered at load time: a child that is forked while another thread
// registers it would wait for that thread.
[[maybe_unused]] const int kForksWatched = MarksReturn::watch_forks();

const bool ThreadMarks::asymmetric_ = dw_sdk::has_process_barrier();

ThreadMarks& ThreadMarks::make() {
  thread_local MarksReturn at_thread_end;
  base::MutexLock lock(everybody().mutex);
  if (everybody().free.empty()) {
    // Reserves a place for each mark, since a thread's end must not allocate.
    everybody().free.reserve(everybody().all.size() + 1);
    everybody().all.push_back(std::make_unique<ThreadMarks>());
    everybody().free.push_back(everybody().all.back().get());
  }
  at_thread_end.marks = mine_ = everybody().free.back();
  everybody().free.pop_back();
  return *mine_;
}

void ThreadMarks::barrier() {
  if (asymmetric_) dw_sdk::process_barrier();
}

void ThreadMarks::visit(absl::FunctionRef<void(ThreadMarks&)> look) {
  base::MutexLock lock(everybody().mutex);
  for (const std::unique_ptr<ThreadMarks>& marks : everybody().all)
    look(*marks);
}

}  // namespace distwrap::comm
