#include "comm/recorder/recording_signal.h"

#include "base/log.h"
#include "base/mutex.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <atomic>
#include <errno.h>
#include <sched.h>
#include <signal.h>

namespace distwrap::comm {
namespace {

std::array<std::atomic<const Recording*>, 64> recordings;
std::atomic<int> handlers{0};  // handlers that are reading them
base::Mutex mutex;
int users ABSL_GUARDED_BY(mutex) = 0;
int handled ABSL_GUARDED_BY(mutex) = 0;  // the signal; 0: none

void save_all(int) {
  const int error = errno;
  handlers.fetch_add(1, std::memory_order_seq_cst);
  for (const std::atomic<const Recording*>& slot : recordings)
    if (const Recording* const recording = slot.load(std::memory_order_seq_cst))
      recording->save("signal");
  handlers.fetch_sub(1, std::memory_order_seq_cst);
  errno = error;
}

// Whether the signal has its default action.
bool is_free(int signal) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 &&
         (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
}

void take(int signal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  if (handled != 0) return;
  if (!is_free(signal)) {
    base::log(base::LogLevel::kInfo,
              absl::StrCat("signal ", signal,
                           " is handled by the program: it saves no "
                           "recordings"));
    return;
  }
  struct sigaction ours = {};
  ours.sa_handler = save_all;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  if (sigaction(signal, &ours, nullptr) == 0) handled = signal;
}

void give_back() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  if (handled == 0) return;
  struct sigaction now = {};
  if (sigaction(handled, nullptr, &now) == 0 && now.sa_handler == save_all)
    signal(handled, SIG_DFL);
  handled = 0;
}

}  // namespace

RecordingSignal::RecordingSignal(const Recording& recording, int signal)
    : recording_(recording) {
  base::MutexLock lock(mutex);
  ++users;
  for (std::atomic<const Recording*>& slot : recordings) {
    if (slot.load(std::memory_order_relaxed) != nullptr) continue;
    slot.store(&recording, std::memory_order_seq_cst);
    break;
  }
  take(signal);
}

RecordingSignal::~RecordingSignal() {
  {
    base::MutexLock lock(mutex);
    for (std::atomic<const Recording*>& slot : recordings)
      if (slot.load(std::memory_order_relaxed) == &recording_)
        slot.store(nullptr, std::memory_order_seq_cst);
    if (--users == 0) give_back();
  }
  while (handlers.load(std::memory_order_seq_cst) != 0) sched_yield();
}

}  // namespace distwrap::comm
