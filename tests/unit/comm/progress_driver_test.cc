// A backend without threads works although nobody waits.
#include "unit/comm/communicator_fixture.h"

#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>
#include <sys/eventfd.h>
#include <unistd.h>

namespace distwrap::comm {
namespace {

class Driven : public CommunicatorTest {
 protected:
  // Completes what is pending when it is asked to work.
  void SetUp() override {
    fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
      pending_ = work;
      return DW_OK;
    };
    fake_.progress = [&] {
      ++asked_;
      if (!ready_) return 0;
      dw_work* const work = pending_.exchange(nullptr);
      if (work == nullptr) return 0;
      fake_.complete(work, DW_OK);
      return 1;
    };
  }
  void expect_callback() {
    const absl::StatusOr<Work> work = call({.async = true});
    ASSERT_TRUE(work.ok()) << work.status();
    absl::Notification called;
    work->on_done([&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      called.Notify();
    });
    let_end();
    called.WaitForNotification();
  }
  virtual void let_end() { ready_ = true; }

  std::atomic<dw_work*> pending_{nullptr};
  std::atomic<bool> ready_{false};
  std::atomic<int> asked_{0};
};

TEST_F(Driven, CallsBackWithoutADescriptor) {
  start();
  expect_callback();
}

class DrivenByDescriptor : public Driven {
 protected:
  ~DrivenByDescriptor() override { close(bell_); }
  void SetUp() override {
    Driven::SetUp();
    fake_.wait_fd = bell_;
    fake_.arm = [&] { return DW_OK; };
  }
  void let_end() override {
    ready_ = true;
    const uint64_t one = 1;
    ASSERT_EQ(write(bell_, &one, sizeof one), ssize_t{sizeof one});
  }

  const int bell_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
};

TEST_F(DrivenByDescriptor, CallsBackWhenItIsReadable) {
  start();
  expect_callback();
}

TEST_F(DrivenByDescriptor, CallsBackWhenTheBackendWakes) {
  start();
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok()) << work.status();
  absl::Notification called;
  work->on_done([&](const absl::Status&) { called.Notify(); });
  ready_ = true;
  fake_.host->wake(fake_.host->self);
  called.WaitForNotification();
}

class DrivesItself : public Driven {
 protected:
  DrivesItself() { fake_.add_flags(DW_BACKEND_HAS_THREADS); }
};

TEST_F(DrivesItself, IsAskedOnlyByWaiters) {
  start();
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok()) << work.status();
  ready_ = true;
  fake_.complete(pending_.exchange(nullptr), DW_OK);
  EXPECT_TRUE(work->wait().ok());
  EXPECT_EQ(asked_, 0);
}

}  // namespace
}  // namespace distwrap::comm
