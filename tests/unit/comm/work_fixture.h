// Operations that stay pending until a test ends them.
#ifndef DISTWRAP_TESTS_UNIT_COMM_WORK_FIXTURE_H_
#define DISTWRAP_TESTS_UNIT_COMM_WORK_FIXTURE_H_

#include "distwrap/work.h"
#include "unit/comm/communicator_fixture.h"

#include <gtest/gtest.h>

#include <deque>
#include <dirent.h>
#include <poll.h>
#include <vector>

namespace distwrap::comm {

inline int entries(const char* path) {
  DIR* const dir = opendir(path);
  int n = 0;
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}
inline int threads() { return entries("/proc/self/task"); }
inline int descriptors() { return entries("/proc/self/fd"); }

inline bool readable(int fd) {
  pollfd event{fd, POLLIN, 0};
  return poll(&event, 1, 0) == 1 && (event.revents & POLLIN) != 0;
}

class WorkTest : public CommunicatorTest {
 protected:
  explicit WorkTest(uint32_t flags = 0) : CommunicatorTest(flags) {
    fake_.submit = [this](const dw_op&, dw_work* work, dw_error*) {
      base::MutexLock lock(mutex_);
      pending_.push_back(work);
      return DW_OK;
    };
  }
  Work pend(const CallOptions& options = {.async = true}) {
    const absl::StatusOr<Work> work = call(options);
    EXPECT_TRUE(work.ok()) << work.status();
    return *work;
  }
  std::vector<Work> pend_many(size_t n) {
    std::vector<Work> works;
    for (size_t i = 0; i < n; ++i) works.push_back(pend());
    return works;
  }
  dw_work* take(size_t i = 0) {
    base::MutexLock lock(mutex_);
    dw_work* const work = pending_[i];
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
    return work;
  }
  void finish(size_t i = 0) { fake_.complete(take(i), DW_OK); }
  void fail(size_t i = 0) {
    dw_error error{};
    set_error(&error, DW_REASON_PEER_LOST, 2, "fake: gone");
    fake_.complete(take(i), DW_UNAVAILABLE, &error);
  }

  base::Mutex mutex_;
  std::deque<dw_work*> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_TESTS_UNIT_COMM_WORK_FIXTURE_H_
