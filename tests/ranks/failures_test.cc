// A caller's mistake or a peer's silence becomes one clear error on every rank,
// in time, and the process lives on. Ranks are threads here; processes_test.cc
// has killed and stopped processes.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/rank_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::run_rank_threads;
using ::distwrap::testing::run_ranks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The time that a loaded machine may add to "deadline + 100 ms".
constexpr absl::Duration kSlack = absl::Seconds(5);

class BadArguments : public ::testing::TestWithParam<const char*> {};
class Silence : public ::testing::TestWithParam<const char*> {};
class Close : public ::testing::TestWithParam<const char*> {};

absl::Duration since(int64_t started_ns) {
  return absl::Nanoseconds(Deadline::now_ns() - started_ns);
}

TEST_P(BadArguments, AreRefusedOnOneRankAndBreakNothing) {
  run_ranks(
      2, {.backend = GetParam(), .timeout = absl::Seconds(60)},
      [](Session& session) {
        const OpOptions o{.group = session.world()};
        std::vector<float> x(8, 1), y(8);
        const TensorView null(static_cast<float*>(nullptr), 8);
        if (session.rank() == 0) {
          std::vector<uint8_t> bytes(8);
          constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
          const absl::Status bad[] = {
              all_reduce(null, ReduceOp::kSum, o).status(),
              all_reduce(TensorView(x.data(), -1), ReduceOp::kSum, o).status(),
              all_reduce(TensorView(x.data(), kHuge), ReduceOp::kSum, o)
                  .status(),
              all_reduce(TensorView(x), static_cast<ReduceOp::Kind>(77), o)
                  .status(),
              broadcast(TensorView(x), Peer::group(2), o).status(),
              broadcast(TensorView(x), Peer::group(-1), o).status(),
              send(TensorView(x), Peer::group(2), 0, o),
              recv(TensorView(x), Peer::group(0), 0, o).status(),
              all_reduce(TensorView(x.data() + 1, 4), TensorView(x.data(), 4),
                         ReduceOp::kSum, o)
                  .status(),
              all_gather_into_tensor(TensorView(y), TensorView(x), o).status(),
              all_gather_into_tensor(TensorView(bytes), TensorView(x.data(), 4),
                                     o)
                  .status(),
              all_reduce(TensorView(x), ReduceOp::kBand, o).status(),
              all_reduce(TensorView(x), ReduceOp::kPremulSum, o).status(),
              all_reduce(TensorView(bytes), ReduceOp::premul_sum(2), o)
                  .status(),
              all_reduce(
                  TensorView(x), ReduceOp::kSum,
                  {.group = session.world(), .timeout = absl::Seconds(-1)})
                  .status(),
          };
          for (const absl::Status& status : bad) {
            EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
                << status;
            const std::optional<ErrorInfo> info = error_info(status);
            ASSERT_TRUE(info.has_value()) << status;
            EXPECT_EQ(info->group, "world") << status;
            EXPECT_EQ(info->my_rank, 0) << status;
            EXPECT_FALSE(info->op.empty()) << status;
            EXPECT_FALSE(info->next_step.empty()) << status;
          }
          EXPECT_EQ(x, std::vector<float>(8, 1)) << "a refused call wrote";
        }
        // The second rank does not notice the refusal.
        const absl::StatusOr<Work> work =
            all_reduce(TensorView(x), ReduceOp::kSum, o);
        ASSERT_TRUE(work.ok()) << work.status();
        EXPECT_EQ(x, std::vector<float>(8, 2));
      });
}

TEST(Start, UnknownBackendListsWhatExistsAndWhereItLooked) {
  run_rank_threads(1, {.backend = "glo"}, [](int, const InitOptions& options) {
    const absl::Status status = Session::create(options).status();
    EXPECT_EQ(error_reason(status), Reason::kBackendUnknown);
    const std::string text(status.message());
    EXPECT_THAT(text, HasSubstr("glo"));
    EXPECT_THAT(text, HasSubstr("gloo"));
    EXPECT_THAT(text, HasSubstr("loopback"));
    EXPECT_THAT(text, HasSubstr("distwrap/plugins"));
  });
}

TEST(Start, MissingRankIsNamedAtTheInitDeadline) {
  const int64_t started = Deadline::now_ns();
  run_rank_threads(
      3, {.backend = "shm", .init_timeout = absl::Milliseconds(300)},
      [](int rank, const InitOptions& options) {
        if (rank == 1) return;  // never comes
        const absl::Status status = Session::create(options).status();
        EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
        EXPECT_THAT(error_info(status)->ranks, ElementsAre(1)) << status;
        EXPECT_THAT(error_info(status)->group, "world");
      });
  EXPECT_LT(since(started), absl::Milliseconds(400) + kSlack);
}

TEST(Start, DifferentOptionsAreNamedOnEveryRank) {
  run_rank_threads(2, {}, [](int rank, const InitOptions& options) {
    InitOptions mine = options;
    mine.backend = rank == 0 ? "shm" : "loopback";
    const absl::Status status = Session::create(mine).status();
    EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
    EXPECT_THAT(error_info(status)->ranks, ElementsAre(1 - rank));
    EXPECT_THAT(std::string(status.message()), HasSubstr("backend loopback"));
  });
}

TEST(Start, ABackendThatServesOneRankOnlyFailsOnAll) {
  run_rank_threads(
      2, {.backend = "loopback"}, [](int, const InitOptions& options) {
        const absl::Status status = Session::create(options).status();
        EXPECT_FALSE(status.ok());
        EXPECT_THAT(std::string(status.message()), HasSubstr("loopback"));
      });
}

TEST(Start, BadPlaceAndHintsAreRefused) {
  const auto reason = [](InitOptions options) {
    return error_reason(Session::create(options).status());
  };
  EXPECT_EQ(reason({.rank = 2, .world_size = 2}), Reason::kInvalidArgument);
  EXPECT_EQ(reason({.rank = 0, .world_size = 0}), Reason::kInvalidArgument);
  EXPECT_EQ(reason({.rank = 0, .world_size = 2}), Reason::kLaunchMissing);
  EXPECT_EQ(reason({.rank = 0, .world_size = 1, .hints = {{"colour", "red"}}}),
            Reason::kInvalidArgument);
  const absl::Status typo = Session::create({.backend = "gloo",
                                             .rank = 0,
                                             .world_size = 1,
                                             .hints = {{"interfac", "lo"}}})
                                .status();
  EXPECT_EQ(error_reason(typo), Reason::kInvalidArgument) << typo;
  EXPECT_THAT(std::string(typo.message()),
              HasSubstr("did you mean 'interface'?"));
  EXPECT_EQ(
      reason({.rank = 0, .world_size = 1, .timeout = absl::ZeroDuration()}),
      Reason::kInvalidArgument);
}

// One rank never enters, for every operation: the others get an error by the
// deadline with group, operation and sequence number; then the group is broken.
TEST_P(Silence, ASynchronousCallEndsByItsDeadline) {
  for (const bool by_call : {true, false}) {
    std::atomic<bool> ended{false};
    run_ranks(
        2,
        {.backend = GetParam(),
         .timeout = by_call ? absl::Seconds(60) : absl::Milliseconds(200)},
        [&](Session& session) {
          OpOptions o{.group = session.world()};
          std::vector<float> x(1024, 1);
          ASSERT_TRUE(all_reduce(TensorView(x), ReduceOp::kSum,
                                 {.group = session.world(),
                                  .timeout = absl::Seconds(60)})
                          .ok());
          if (session.rank() == 1) {
            while (!ended) std::this_thread::yield();
            return;
          }
          if (by_call) o.timeout = absl::Milliseconds(200);
          const int64_t started = Deadline::now_ns();
          const absl::Status status =
              all_reduce(TensorView(x), ReduceOp::kSum, o).status();
          const absl::Duration elapsed = since(started);
          ended = true;
          EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
          EXPECT_THAT(std::string(status.message()),
                      HasSubstr("all_reduce #2 on \"world\" (rank 0 of 2)"));
          EXPECT_EQ(error_info(status)->deadline, absl::Milliseconds(200));
          EXPECT_GE(error_info(status)->elapsed, absl::Milliseconds(200));
          EXPECT_LE(error_info(status)->elapsed, elapsed);
          EXPECT_GE(elapsed, absl::Milliseconds(200));
          EXPECT_LT(elapsed, absl::Milliseconds(300) + kSlack);

          const absl::Status later = barrier(o).status();
          EXPECT_EQ(error_reason(later), Reason::kGroupBroken) << later;
          EXPECT_THAT(error_info(later)->cause, HasSubstr("all_reduce #2"));
        });
  }
}

TEST_P(Silence, AnAsynchronousCallEndsByItsDeadline) {
  // Long enough for a busy machine to reach the first wait.
  constexpr absl::Duration kLimit = absl::Seconds(1);
  std::atomic<bool> ended{false};
  run_ranks(2, {.backend = GetParam()}, [&](Session& session) {
    if (session.rank() == 1) {
      while (!ended) std::this_thread::yield();
      return;
    }
    std::vector<float> x(1024, 1);
    const int64_t started = Deadline::now_ns();
    const absl::StatusOr<Work> work = all_reduce(
        TensorView(x), ReduceOp::kSum,
        {.group = session.world(), .async = true, .timeout = kLimit});
    ASSERT_TRUE(work.ok()) << work.status();
    EXPECT_EQ(work->state(), WorkState::kRunning);
    // A shorter limit ends only the wait.
    EXPECT_EQ(error_reason(work->wait(absl::Milliseconds(1))),
              Reason::kWaitExpired);
    const absl::Status status = work->wait();
    EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
    EXPECT_EQ(work->state(), WorkState::kTimedOut);
    EXPECT_LT(since(started), kLimit + absl::Milliseconds(100) + kSlack);
    EXPECT_EQ(work->wait().message(), status.message()) << "every time";
    ended = true;
  });
}

// One rank gives up: the others learn of it at once, not at their deadline.
TEST_P(Silence, ThePeersOfARankThatGaveUpFailToo) {
  run_ranks(3, {.backend = GetParam(), .timeout = absl::Seconds(120)},
            [](Session& session) {
              OpOptions o{.group = session.world()};
              std::vector<float> x(1024, 1);
              if (session.rank() == 2) return;  // closes without ever entering
              if (session.rank() == 0) o.timeout = absl::Milliseconds(200);
              const int64_t started = Deadline::now_ns();
              const absl::Status status =
                  all_reduce(TensorView(x), ReduceOp::kSum, o).status();
              EXPECT_FALSE(status.ok());
              EXPECT_EQ(error_info(status)->seq, 1u) << status;
              EXPECT_LT(since(started), absl::Seconds(1) + kSlack) << status;
            });
}

TEST_P(Close, TwiceDoesNothingAndLaterCallsAreRefused) {
  run_rank_threads(
      2, {.backend = GetParam()}, [](int, const InitOptions& options) {
        Session session = *Session::create(options);
        const Group world = session.world();
        EXPECT_TRUE(session.close().ok());
        EXPECT_TRUE(session.close().ok());
        std::vector<float> x(4);
        const absl::Status status =
            all_reduce(TensorView(x), ReduceOp::kSum, {.group = world})
                .status();
        EXPECT_EQ(error_reason(status), Reason::kGroupClosed) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("world"));
      });
}

// A mismatch of calls, which this test ignores.
TEST_P(Close, WithWorkInFlightIsBounded) {
  run_rank_threads(
      2,
      {.backend = GetParam(),
       .timeout = absl::Seconds(120),
       .check = Check::kOff},
      [](int rank, const InitOptions& options) {
        Session session = *Session::create(options);
        std::vector<float> x(1 << 20);
        const int64_t started = Deadline::now_ns();
        if (rank == 0) {
          const absl::StatusOr<Work> work =
              all_reduce(TensorView(x), ReduceOp::kSum,
                         {.group = session.world(), .async = true});
          ASSERT_TRUE(work.ok()) << work.status();
          EXPECT_TRUE(session.close(absl::Milliseconds(200)).ok());
          EXPECT_LT(since(started), absl::Seconds(1) + kSlack);
          // On a busy machine a backend lets go of it only after the close.
          EXPECT_EQ(error_reason(work->wait(absl::Seconds(10))),
                    Reason::kAborted);
          EXPECT_EQ(work->state(), WorkState::kAborted) << work->status();
        } else {
          // A peer that is in another thread's call when it closes.
          std::thread caller([&] {
            std::vector<float> y(8);
            const absl::Status status = broadcast(TensorView(y), Peer::group(0),
                                                  {.group = session.world()})
                                            .status();
            EXPECT_FALSE(status.ok());
          });
          EXPECT_TRUE(session.close(absl::Milliseconds(200)).ok());
          EXPECT_LT(since(started), absl::Seconds(1) + kSlack);
          caller.join();
        }
      });
}

TEST_P(Close, ASessionThatIsDroppedIsAborted) {
  const int64_t started = Deadline::now_ns();
  run_rank_threads(2, {.backend = GetParam()},
                   [](int, const InitOptions& options) {
                     EXPECT_TRUE(Session::create(options).ok());
                   });
  EXPECT_LT(since(started), absl::Seconds(2) + kSlack);
}

// One session after the other on the same store.
TEST_P(Close, ThenStartAgain) {
  run_rank_threads(
      2, {.backend = GetParam()}, [](int, const InitOptions& options) {
        for (int round = 0; round < 3; ++round) {
          const absl::StatusOr<Session> session = Session::create(options);
          ASSERT_TRUE(session.ok()) << session.status();
          std::vector<float> x{1};
          EXPECT_TRUE(all_reduce(TensorView(x), ReduceOp::kSum,
                                 {.group = session->world()})
                          .ok());
          EXPECT_EQ(x[0], 2.0f);
          EXPECT_TRUE(session->close().ok());
        }
      });
}

INSTANTIATE_TEST_SUITE_P(Backends, BadArguments,
                         ::testing::ValuesIn(testing::host_backends()),
                         testing::name_of_backend);
INSTANTIATE_TEST_SUITE_P(Backends, Silence,
                         ::testing::ValuesIn(testing::host_backends()),
                         testing::name_of_backend);
INSTANTIATE_TEST_SUITE_P(Backends, Close,
                         ::testing::ValuesIn(testing::host_backends()),
                         testing::name_of_backend);

}  // namespace
}  // namespace distwrap
