// The slots tagged [backend] are entered by one thread at a time.
#include "comm/backend_instance.h"

#include "comm/batch_record.h"
#include "unit/comm/communicator_fixture.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

namespace distwrap::comm {
namespace {

// A device for which nothing is composed, so that no decorator keeps an order.
class InstanceTest : public CommunicatorTest {
 protected:
  InstanceTest() {
    fake_.progress = [this] {
      EXPECT_FALSE(building_) << "a thread is inside already";
      ++progressed_;
      return 0;
    };
  }
  void start() {
    CommunicatorTest::start(absl::Seconds(60), Device{.type = DW_DEVICE_CUDA});
  }
  // While one thread builds a group, another one does `f` from start to end.
  void while_building(const std::function<void()>& f) {
    fake_.step = [&](int, dw_error*) {
      building_ = true;
      std::thread(f).join();
      building_ = false;
      return DW_DONE;
    };
    const auto built =
        build_communicator(*backend_, *store_, {.group = "h", .keys = "h/"},
                           Deadline::after(absl::Seconds(10)));
    ASSERT_TRUE(built.ok()) << built.status();
    backend_->api().comm_destroy(*built, 0, nullptr);
  }
  // Answers *again* the first times.
  int32_t soon() { return ++tries_ % 3 == 0 ? DW_DONE : DW_AGAIN; }

  bool building_ = false;
  std::atomic<int> progressed_{0};
  int tries_ = 0;
};

TEST_F(InstanceTest, AWaitKeepsOutWhileAGroupIsBuilt) {
  start();
  dw_work* pending = nullptr;
  fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
    pending = work;
    return DW_OK;
  };
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok()) << work.status();
  // The session's thread drives the work as well, before and after.
  while_building([&] {
    const int before = progressed_;
    EXPECT_FALSE(work->test());
    EXPECT_EQ(progressed_, before);
  });
  // A test makes progress again, unless the session's thread is inside.
  for (const int built = progressed_; progressed_ == built;)
    EXPECT_FALSE(work->test());
  fake_.complete(pending, DW_OK);
}

TEST_F(InstanceTest, ACallWithoutResourcesKeepsOutWhileAGroupIsBuilt) {
  start();
  fake_.submit = [&](const dw_op&, dw_work*, dw_error*) { return soon(); };
  while_building([&] {
    EXPECT_TRUE(call().ok());
    EXPECT_EQ(progressed_, 0);
  });
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(progressed_, 2);
}

TEST_F(InstanceTest, ABatchWithoutResourcesKeepsOutWhileAGroupIsBuilt) {
  start();
  fake_.submit_group = [&](const dw_group_item*, uint64_t, dw_error*) {
    return soon();
  };
  const auto run_batch = [&] {
    BatchRecord batch;
    ASSERT_TRUE(batch.on(*comm_).send(view(y_), 1, 7).ok());
    const absl::StatusOr<std::vector<Work>> works = batch.submit();
    ASSERT_TRUE(works.ok()) << works.status();
    EXPECT_TRUE(works->front().wait().ok());
  };
  // The session's thread drives the batch too, before and after.
  while_building([&] {
    const int before = progressed_;
    run_batch();
    EXPECT_EQ(progressed_, before);
  });
  run_batch();
  // The session's thread may have submitted a part of it instead.
  EXPECT_GE(progressed_, 1) << "submitted by the batch, and twice by the wait";
}

TEST(BackendError, AReasonOfALaterVersionIsNone) {
  dw_error error{};
  error.reason = 60'000;
  EXPECT_EQ(backend_error(DW_INTERNAL, error, "fake").reason,
            Reason::kBackendFailed);
  EXPECT_EQ(backend_error(DW_UNIMPLEMENTED, error, "fake").reason,
            Reason::kUnsupported);
  error.reason = DW_REASON_PEER_LOST;
  EXPECT_EQ(backend_error(DW_INTERNAL, error, "fake").reason,
            Reason::kPeerLost);
}

}  // namespace
}  // namespace distwrap::comm
