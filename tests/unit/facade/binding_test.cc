// The session of a call, and the errors of calls without one.
#include "distwrap/distwrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

const InitOptions kAlone{.rank = 0, .world_size = 1};

TEST(Binding, WithoutASessionCallsSaySo) {
  std::vector<float> x(4);
  const TensorView t(x);
  const absl::Status errors[] = {all_reduce(t).status(),
                                 barrier().status(),
                                 broadcast(t, Peer::group(0)).status(),
                                 all_gather_into_tensor(t, t).status(),
                                 all_to_all_single(t, t).status(),
                                 reduce_scatter_tensor(t, t).status(),
                                 send(t, Peer::group(0)),
                                 recv(t, Peer::group(0)).status(),
                                 isend(t, Peer::group(0)).status(),
                                 irecv(t, Peer::group(0)).status(),
                                 destroy_process_group()};
  for (const absl::Status& status : errors) {
    EXPECT_EQ(error_reason(status), Reason::kNotInitialized) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("called before init_process_group"));
  }
  EXPECT_EQ(error_reason(Session().save_recording().status()),
            Reason::kNotInitialized);
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(get_rank(), -1);
  EXPECT_EQ(get_world_size(), -1);
}

TEST(Binding, InitBindsAndDestroyUnbinds) {
  const absl::StatusOr<Session> session = init_process_group(kAlone);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(get_rank(), 0);
  EXPECT_EQ(get_world_size(), 1);
  EXPECT_EQ(session->world().name(), "world");

  const absl::Status again = init_process_group(kAlone).status();
  EXPECT_EQ(error_reason(again), Reason::kAlreadyInitialized);

  std::vector<float> x{3};
  EXPECT_TRUE(all_reduce(TensorView(x)).ok());
  EXPECT_EQ(x[0], 3.0f);
  EXPECT_TRUE(destroy_process_group().ok());
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(error_reason(all_reduce(TensorView(x)).status()),
            Reason::kNotInitialized);
  EXPECT_TRUE(init_process_group(kAlone).ok()) << "a second life";
  EXPECT_TRUE(destroy_process_group().ok());
}

TEST(Binding, AThreadWithoutOneUsesTheOnlySession) {
  ASSERT_TRUE(init_process_group(kAlone).ok());
  std::thread([] {
    EXPECT_TRUE(is_initialized());
    EXPECT_TRUE(barrier().ok());
  }).join();
  EXPECT_TRUE(destroy_process_group().ok());
}

TEST(Binding, WithTwoSessionsAThreadMustBind) {
  ASSERT_TRUE(init_process_group(kAlone).ok());
  std::thread([] {
    EXPECT_TRUE(is_initialized());
    const absl::StatusOr<Session> second = init_process_group(kAlone);
    ASSERT_TRUE(second.ok()) << second.status();
    std::thread([&second] {
      EXPECT_FALSE(is_initialized()) << "two to choose from";
      bind_session(*second);
      EXPECT_TRUE(is_initialized());
      EXPECT_TRUE(barrier().ok());
      bind_session({});
      EXPECT_FALSE(is_initialized());
    }).join();
    EXPECT_TRUE(destroy_process_group().ok());
  }).join();
  EXPECT_TRUE(barrier().ok());
  EXPECT_TRUE(destroy_process_group().ok());
}

TEST(Binding, ASessionEndedElsewhereIsNoticed) {
  ASSERT_TRUE(init_process_group(kAlone).ok());
  EXPECT_TRUE(barrier().ok());
  std::thread([] { EXPECT_TRUE(destroy_process_group().ok()); }).join();
  EXPECT_EQ(error_reason(barrier().status()), Reason::kGroupClosed);
  bind_session({});
  EXPECT_FALSE(is_initialized());
}

}  // namespace
}  // namespace distwrap
