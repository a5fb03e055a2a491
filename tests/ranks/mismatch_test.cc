// Calls that differ between the ranks: all ranks get the same named error at
// once, under a backend that would wait until its deadline.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/rank_threads.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::run_over_each;
using ::distwrap::testing::run_ranks;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Long before the deadline of 120 s.
constexpr absl::Duration kSoon = absl::Seconds(30);

struct Difference {
  const char* name;
  std::function<absl::Status(const OpOptions&)> all, one;
  const char* expected;
  const char* actual;
};

thread_local std::vector<float> x(64), y(256);
TensorView some(int64_t n) { return {x.data(), n}; }

const Difference kDifferences[] = {
    {"Count",
     [](const OpOptions& o) {
       return all_reduce(some(8), ReduceOp::kSum, o).status();
     },
     [](const OpOptions& o) {
       return all_reduce(some(9), ReduceOp::kSum, o).status();
     },
     "all_reduce f32 x 8 sum", "all_reduce f32 x 9 sum"},
    {"Reduction",
     [](const OpOptions& o) {
       return all_reduce(some(8), ReduceOp::kSum, o).status();
     },
     [](const OpOptions& o) {
       return all_reduce(some(8), ReduceOp::kMax, o).status();
     },
     "all_reduce f32 x 8 sum", "all_reduce f32 x 8 max"},
    {"Kind", [](const OpOptions& o) { return barrier(o).status(); },
     [](const OpOptions& o) {
       return broadcast(some(4), Peer::group(0), o).status();
     },
     "barrier", "broadcast f32 x 4 from rank 0"},
    {"Root",
     [](const OpOptions& o) {
       return broadcast(some(4), Peer::group(0), o).status();
     },
     [](const OpOptions& o) {
       return broadcast(some(4), Peer::group(1), o).status();
     },
     "from rank 0", "from rank 1"},
    {"Dtype",
     [](const OpOptions& o) {
       return all_reduce(some(8), ReduceOp::kMax, o).status();
     },
     [](const OpOptions& o) {
       return all_reduce(TensorView(reinterpret_cast<int32_t*>(x.data()), 8),
                         ReduceOp::kMax, o)
           .status();
     },
     "f32 x 8", "i32 x 8"},
    {"Asynchronous",
     [](const OpOptions& o) {
       OpOptions async = o;
       async.async = true;
       const auto work = all_reduce(some(8), ReduceOp::kSum, async);
       return work.ok() ? work->wait() : work.status();
     },
     [](const OpOptions& o) { return barrier(o).status(); },
     "all_reduce f32 x 8 sum", "barrier"},
};

class Mismatch
    : public ::testing::TestWithParam<std::tuple<const char*, Difference>> {};

TEST_P(Mismatch, IsTheSameErrorOnAllRanks) {
  const auto& [backend, difference] = GetParam();
  std::mutex mutex;
  std::vector<std::string> texts;
  run_ranks(3, {.backend = backend, .timeout = absl::Seconds(120)},
            [&, &difference = difference](Session& session) {
              const OpOptions o{.group = session.world(), .label = "step 7"};
              ASSERT_TRUE(barrier(o).ok());
              const int64_t started_ns = Deadline::now_ns();
              absl::Status status =
                  session.rank() == 2 ? difference.one(o) : difference.all(o);
              // A rank may have finished before another one has called. Its
              // next calls are few, because the board remembers the last 46.
              while (status.ok()) {
                absl::SleepFor(absl::Milliseconds(10));
                status = barrier(o).status();
              }
              const absl::Duration took =
                  absl::Nanoseconds(Deadline::now_ns() - started_ns);
              EXPECT_LT(took, kSoon);
              const std::optional<ErrorInfo> info = error_info(status);
              ASSERT_TRUE(info.has_value()) << status;
              EXPECT_THAT(std::string(status.message()),
                          AllOf(HasSubstr(difference.expected),
                                HasSubstr(difference.actual)));
              EXPECT_EQ(info->reason, Reason::kCallMismatch) << status;
              EXPECT_THAT(info->ranks, ElementsAre(2));
              EXPECT_THAT(info->expected, HasSubstr(difference.expected));
              // A backend may notice before all have called.
              EXPECT_THAT(info->expected,
                          AnyOf(HasSubstr("(ranks 0, 1)"),
                                HasSubstr("(rank 0)"), HasSubstr("(rank 1)")));
              EXPECT_THAT(info->actual, HasSubstr(difference.actual));
              EXPECT_THAT(info->actual, HasSubstr("step 7"));
              EXPECT_EQ(info->seq, 2u);
              // The group stays broken, with the same cause.
              const absl::Status again = barrier(o).status();
              EXPECT_EQ(error_reason(again), Reason::kGroupBroken);
              EXPECT_THAT(std::string(again.message()),
                          HasSubstr("ranks called different operations"));
              std::lock_guard<std::mutex> lock(mutex);
              texts.push_back(info->expected + info->actual);
            });
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts, ::testing::Each(texts[0]));
}

INSTANTIATE_TEST_SUITE_P(
    Differences, Mismatch,
    ::testing::Combine(::testing::ValuesIn(testing::host_backends()),
                       ::testing::ValuesIn(kDifferences)),
    [](const auto& test) {
      return std::get<1>(test.param).name + std::string("_") +
             std::get<0>(test.param);
    });

// Counts of pairs: rank 0 sends 5 elements to rank 2, which expects 4.
struct PairDifference {
  const char* name;
  const char* backend;
  std::function<absl::Status(int rank, const OpOptions&)> call;
};

absl::Status parts_to_all(int rank, const OpOptions& o) {
  const std::vector<int64_t> ones = {1, 1, 1};
  const std::vector<int64_t> sends = {1, 1, 5}, expects = {4, 1, 1};
  const std::vector<int64_t>& in = rank == 0 ? sends : ones;
  const std::vector<int64_t>& out = rank == 2 ? expects : ones;
  return all_to_all_single({y.data(), rank == 2 ? 6 : 3},
                           {x.data(), rank == 0 ? 7 : 3}, out, in, o)
      .status();
}
absl::Status gather_to_two(int rank, const OpOptions& o) {
  std::vector<TensorView> outs;
  if (rank == 2)
    outs = {{y.data(), 4}, {y.data() + 64, 1}, {y.data() + 128, 1}};
  return gather(outs, some(rank == 0 ? 5 : 1), Peer::group(2), o).status();
}
absl::Status scatter_from_zero(int rank, const OpOptions& o) {
  std::vector<TensorView> ins;
  if (rank == 0) ins = {{y.data(), 1}, {y.data() + 64, 1}, {y.data() + 128, 5}};
  return scatter(some(rank == 2 ? 4 : 1), ins, Peer::group(0), o).status();
}

class PairMismatch : public ::testing::TestWithParam<PairDifference> {};

TEST_P(PairMismatch, IsNamedWithBothCountsOnAllRanks) {
  run_ranks(
      3, {.backend = GetParam().backend, .timeout = absl::Seconds(120)},
      [&](Session& session) {
        const OpOptions o{.group = session.world(), .label = "step 7"};
        ASSERT_TRUE(barrier(o).ok());
        const int64_t started_ns = Deadline::now_ns();
        absl::Status status = GetParam().call(session.rank(), o);
        while (status.ok()) status = barrier(o).status();
        EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - started_ns), kSoon);
        const std::optional<ErrorInfo> info = error_info(status);
        ASSERT_TRUE(info.has_value()) << status;
        EXPECT_EQ(info->reason, Reason::kCallMismatch) << status;
        EXPECT_THAT(info->ranks, ElementsAre(0, 2));
        EXPECT_EQ(info->seq, 2u);
        EXPECT_THAT(info->expected,
                    HasSubstr("(rank 2): 4 elements of rank 0"));
        EXPECT_THAT(info->actual, HasSubstr("(rank 0): 5 elements to rank 2"));
        EXPECT_THAT(info->actual, HasSubstr("step 7"));
      });
}

INSTANTIATE_TEST_SUITE_P(Calls, PairMismatch,
                         ::testing::ValuesIn(testing::and_ucx<PairDifference>(
                             {{"AllToAllGloo", "gloo", parts_to_all},
                              {"GatherGloo", "gloo", gather_to_two},
                              {"ScatterGloo", "gloo", scatter_from_zero},
                              {"AllToAllShm", "shm", parts_to_all},
                              {"GatherShm", "shm", gather_to_two},
                              {"ScatterShm", "shm", scatter_from_zero}},
                             {{"AllToAllUcx", "ucx", parts_to_all},
                              {"GatherUcx", "ucx", gather_to_two},
                              {"ScatterUcx", "ucx", scatter_from_zero}})),
                         [](const auto& param) {
                           return std::string(param.param.name);
                         });

// Sent and expected counts agree, call after call, whatever they are.
TEST(PairCounts, ThatAgreeAreLeftInPeace) {
  run_over_each(3, {.timeout = absl::Seconds(120)}, [&](Session& session) {
    const OpOptions o{.group = session.world()};
    std::vector<float> in(96), out(96);
    const int64_t started_ns = Deadline::now_ns();
    int64_t step = 0;
    // Several looks of the board.
    do {
      const auto count = [&](int from, int to) {
        return (from * 5 + to * 3 + step) % 7;
      };
      std::vector<int64_t> to, from;
      int64_t all_in = 0, all_out = 0;
      for (int peer = 0; peer < 3; ++peer) {
        to.push_back(count(session.rank(), peer));
        from.push_back(count(peer, session.rank()));
        all_in += to.back();
        all_out += from.back();
      }
      ASSERT_TRUE(all_to_all_single({out.data(), all_out}, {in.data(), all_in},
                                    from, to, o)
                      .ok());
      float more = Deadline::now_ns() - started_ns <
                           absl::ToInt64Nanoseconds(absl::Milliseconds(300))
                       ? 1
                       : 0;
      ASSERT_TRUE(all_reduce(TensorView(&more, 1), ReduceOp::kMax, o).ok());
      step = more != 0 ? step + 1 : -1;
    } while (step >= 0);
  });
}

// In a group of some ranks, which breaks alone.
TEST(Mismatches, OfOneGroupLeaveTheOthersWhole) {
  run_over_each(3, {.timeout = absl::Seconds(120)}, [&](Session& session) {
    const auto pair =
        split_group({.parent = session.world(), .split_ranks = {{0, 2}, {1}}});
    ASSERT_TRUE(pair.ok()) << pair.status();
    if (session.rank() != 1) {
      const OpOptions o{.group = *pair};
      const absl::Status status =
          session.rank() == 0 ? barrier(o).status()
                              : all_reduce(some(1), ReduceOp::kSum, o).status();
      EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
    }
    EXPECT_TRUE(barrier({.group = session.world()}).ok());
  });
}

// A root finishes at once. A mismatch that is found while it is in no call is
// returned by its next call, and is the cause in later ones.
TEST(Mismatches, AreToldByTheNextCall) {
  run_over_each(2, {.timeout = absl::Seconds(120)}, [&](Session& session) {
    const OpOptions o{.group = session.world()};
    ASSERT_TRUE(barrier(o).ok());
    absl::Status first = session.rank() == 0
                             ? broadcast(some(1), Peer::group(0), o).status()
                             : barrier(o).status();
    if (first.ok()) {
      EXPECT_EQ(session.rank(), 0);
      absl::SleepFor(absl::Milliseconds(300));
      first = barrier(o).status();
    }
    EXPECT_EQ(error_reason(first), Reason::kCallMismatch) << first;
    const absl::Status later = barrier(o).status();
    EXPECT_EQ(error_reason(later), Reason::kGroupBroken) << later;
  });
}

// The calls may succeed, and the two ranks have made them when they end.
TEST(Mismatches, AreToldByTheEndWhenNoCallIsLeft) {
  for (const bool of_group : {false, true})
    run_over_each(2, {.timeout = absl::Seconds(120)}, [&](Session& session) {
      const auto pair =
          split_group({.parent = session.world(), .split_ranks = {{0, 1}}});
      ASSERT_TRUE(pair.ok()) << pair.status();
      std::vector<float> in(8, 1), out(8);
      absl::Status told =
          scan(TensorView(out), TensorView(in),
               session.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax,
               {.group = *pair})
              .status();
      if (told.ok()) told = barrier({.group = *pair}).status();
      if (told.ok()) {
        bind_session(session);
        told = of_group ? destroy_process_group(*pair) : session.close();
        bind_session({});
      }
      EXPECT_EQ(error_reason(told), Reason::kCallMismatch) << told;
      EXPECT_THAT(error_info(told)->ranks, ElementsAre(1));
    });
}

// The backend may find the difference itself; nobody compares calls beside it.
TEST(Mismatches, AreNotLookedForWhenTheCheckIsOff) {
  run_over_each(2, {.timeout = absl::Milliseconds(700), .check = Check::kOff},
                [&](Session& session) {
                  const OpOptions o{.group = session.world()};
                  const absl::Status status =
                      session.rank() == 0
                          ? barrier(o).status()
                          : all_reduce(some(1), ReduceOp::kSum, o).status();
                  EXPECT_FALSE(status.ok());
                  EXPECT_THAT(
                      std::string(status.message()),
                      Not(HasSubstr("ranks called different operations")));
                });
}

}  // namespace
}  // namespace distwrap
