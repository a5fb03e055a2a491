// Sessions over nccl that begin and end in every wrong order, and processes
// that fork or leave with operations in flight.
#include "distwrap/abi/note.h"
#include "facade_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace distwrap::nccl_test {
namespace {

using Clock = std::chrono::steady_clock;

// The limit of an end with work in flight, and by how much it may be late on a
// machine that does much else.
constexpr absl::Duration kDrain = absl::Milliseconds(30);
constexpr std::chrono::milliseconds kLate{3000};

enum class Act : uint8_t { kTwice, kUsedAfter, kInFlight, kDropped, kGroup };

class Life {
 public:
  // `absent`: the rank that makes no call, so that those of the other one stay
  // in flight.
  Life(Session session, int absent)
      : session_(std::move(session)),
        rank_(session_.rank()),
        absent_(absent),
        x_(rank_, {1}) {}

  void live(Act act) {
    const absl::Status met = sum(session_.world());
    ASSERT_TRUE(met.ok()) << met;
    EXPECT_EQ(x_.values(), Ints{2});
    switch (act) {
      case Act::kTwice:
        EXPECT_TRUE(session_.close().ok());
        EXPECT_TRUE(session_.close().ok());
        return;
      case Act::kUsedAfter: {
        const Group world = session_.world();
        EXPECT_TRUE(session_.close().ok());
        EXPECT_EQ(error_reason(sum(world)), Reason::kGroupClosed);
        return;
      }
      case Act::kInFlight: {
        const std::optional<Work> work = start();
        ends_in_time([&] { EXPECT_TRUE(session_.close(kDrain).ok()); });
        EXPECT_FALSE(work.has_value() && work->wait().ok());
        return;
      }
      case Act::kDropped: {
        const std::optional<Work> work = start();
        bind_session({});
        ends_in_time([&] { session_ = Session(); });
        EXPECT_FALSE(work.has_value() && work->wait().ok());
        return;
      }
      case Act::kGroup:
        return end_group_under_a_call();
    }
  }

 private:
  absl::Status sum(const Group& group) const {
    return all_reduce(x_.view(), ReduceOp::kSum, {.group = group}).status();
  }
  std::optional<Work> start() const {
    if (rank_ == absent_) return std::nullopt;
    const auto work = all_reduce(x_.view(), ReduceOp::kSum, {.async = true});
    EXPECT_TRUE(work.ok()) << work.status();
    return work.ok() ? std::optional<Work>(*work) : std::nullopt;
  }
  template <class End>
  void ends_in_time(const End& end) const {
    const auto began = Clock::now();
    end();
    EXPECT_LT(Clock::now() - began, kLate);
  }
  void end_group_under_a_call() const {
    const absl::StatusOr<Group> group = new_group();
    ASSERT_TRUE(group.ok()) << group.status();
    std::thread caller(
        [&] { EXPECT_FALSE(rank_ != absent_ && sum(*group).ok()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(set_timeout(*group, kDrain).ok());
    ends_in_time([&] { EXPECT_TRUE(destroy_process_group(*group).ok()); });
    caller.join();
    EXPECT_TRUE(sum(session_.world()).ok());
    EXPECT_TRUE(session_.close().ok());
  }

  Session session_;
  const int rank_, absent_;
  const OnDevice x_;
};

class NcclLives : public testing::TestWithParam<int> {};

// F18.
TEST_P(NcclLives, SessionsEndInEveryOrder) {
  fakes::gpu::allow_host_memory(false);
  std::minstd_rand random(seed_of(GetParam()));
  for (int i = 0; i < 15; ++i) {
    const auto act = static_cast<Act>(i % 5);
    const int absent = static_cast<int>(random() % 2);
    const std::shared_ptr<Store> store = Store::in_memory();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        absl::StatusOr<Session> session = open_session(
            rank, 2, store, {{"nccl_library", fake_nccl(GetParam())}});
        ASSERT_TRUE(session.ok()) << session.status();
        bind_session(*session);
        Life life(*std::move(session), absent);
        session = absl::UnknownError("moved");
        life.live(act);
        bind_session({});
      });
    for (std::thread& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclLives, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

enum class Way : uint8_t { kExit, kQuickExit, kProgram };

// A leak checker takes for leaks what threads have that a child lacks, or that
// exit() has overtaken.
constexpr bool kChecksLeaks = DW_SANITIZER != DW_SANITIZER_NONE;

absl::Status sum_of(const OnDevice& x) {
  return all_reduce(x.view(), ReduceOp::kSum).status();
}

[[noreturn]] void be_child(const OnDevice& x, Way way) {
  if (error_reason(sum_of(x)) != Reason::kForkedChild) _exit(3);
  if (error_reason(destroy_process_group()) != Reason::kForkedChild) _exit(4);
  if (way == Way::kProgram) execl("/bin/true", "true", nullptr);
  if (way != Way::kExit || kChecksLeaks) _exit(0);
  std::exit(0);
}

// A rank that forks, works on, and leaves by exit() with a call in flight.
[[noreturn]] void live_and_leave(Way way, int version) {
  fakes::gpu::allow_host_memory(false);
  static absl::StatusOr<Session> session = open_session(
      0, 1, Store::in_memory(), {{"nccl_library", fake_nccl(version)}});
  if (!session.ok()) _exit(10);
  bind_session(*session);
  static const OnDevice* const x = new OnDevice(0, {1});
  if (!sum_of(*x).ok()) _exit(11);
  // The call of a thread that ends with its part of NCCL.
  std::thread([] {
    bind_session(*session);
    if (!sum_of(*x).ok()) _exit(12);
    bind_session({});
  }).join();
  const pid_t child = fork();
  if (child == 0) be_child(*x, way);
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) _exit(13);
  if (!sum_of(*x).ok()) _exit(14);
  static auto* const gate = new fakes::gpu::Moment;
  static auto* const stream = new CUstream_st(0);
  stream->put([] { gate->wait(); });
  static const auto flying =
      all_reduce(x->view(), ReduceOp::kSum, {.stream = handle(*stream)});
  const int code = flying.ok() ? 0 : 15;
  if (kChecksLeaks) _exit(code);
  std::exit(code);
}

// F19.
TEST(NcclLeaves, ByExitAfterForks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int version : versions())
    for (const Way way : {Way::kExit, Way::kQuickExit, Way::kProgram})
      EXPECT_EXIT(live_and_leave(way, version), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace distwrap::nccl_test
