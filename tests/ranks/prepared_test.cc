// Prepared operations over every backend: what a start moves, and what ranks
// are told that prepare or start different ones.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/hook_diary.h"
#include "ranks/rank_threads.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::run_over_each;
using ::distwrap::testing::run_ranks;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The time that a loaded machine may add to "deadline + 100 ms".
constexpr absl::Duration kSlack = absl::Seconds(5);

// Rank `from` has so many elements for rank `to`.
int64_t piece(int from, int to) { return (from * 5 + to * 3) % 7; }

struct Exchange {
  Exchange(int own_rank, int size) : rank(own_rank), n(size) {
    for (int r = 0; r < n; ++r) {
      to.push_back(piece(rank, r));
      from.push_back(piece(r, rank));
    }
    in.resize(static_cast<size_t>(std::accumulate(to.begin(), to.end(), 0)));
    out.resize(
        static_cast<size_t>(std::accumulate(from.begin(), from.end(), 0)));
  }
  // Elements of a call: what sender, receiver and place tell.
  void fill(int call) {
    size_t i = 0;
    for (int r = 0; r < n; ++r)
      for (int64_t k = 0; k < to[static_cast<size_t>(r)]; ++k)
        in[i++] = static_cast<float>(1000 * call + 100 * rank + 10 * r + k);
    out.assign(out.size(), -1);
  }
  void check(int call) const {
    size_t i = 0;
    for (int r = 0; r < n; ++r)
      for (int64_t k = 0; k < from[static_cast<size_t>(r)]; ++k, ++i)
        ASSERT_EQ(out[i],
                  static_cast<float>(1000 * call + 100 * r + 10 * rank + k))
            << "call " << call << ", element " << i;
  }

  const int rank, n;
  std::vector<int64_t> to, from;
  std::vector<float> in, out;
};

absl::StatusOr<PreparedOperation> prepare(Exchange& given, const OpOptions& o) {
  Batch batch;
  batch.all_to_all_single(TensorView(given.out), TensorView(given.in),
                          given.from, given.to, o);
  return batch.prepare();
}

TEST(Prepared, StartsWithNewDataAndOnOtherBuffers) {
  for (const int n : {1, 2, 3})
    run_over_each(n, {}, [n](Session& session) {
      const OpOptions o{.group = session.world()};
      Exchange own(session.rank(), n), other(session.rank(), n);
      const auto exchange = prepare(own, o);
      ASSERT_TRUE(exchange.ok()) << exchange.status();
      for (int call = 0; call < 20; ++call) {
        Exchange& used = call % 3 == 2 ? other : own;
        used.fill(call);
        const CallOptions how{.async = call % 2 == 1};
        const absl::StatusOr<Work> work =
            &used == &own ? exchange->start(how)
                          : exchange->start(TensorView(used.out),
                                            TensorView(used.in), how);
        ASSERT_TRUE(work.ok()) << work.status();
        ASSERT_TRUE(work->wait().ok());
        used.check(call);
        // Other calls come in between.
        ASSERT_TRUE(barrier(o).ok());
      }
    });
}

TEST(Prepared, EveryCollective) {
  run_over_each(3, {}, [](Session& session) {
    const OpOptions o{.group = session.world(), .label = "all of them"};
    const int n = 3, me = session.rank();
    const auto prepared = [&](const auto& record) {
      Batch batch;
      record(batch);
      auto made = batch.prepare();
      EXPECT_TRUE(made.ok()) << made.status();
      return made.ok() ? *made : PreparedOperation();
    };
    std::vector<int32_t> x(6), y(18), z(2);
    const TensorView in(x), wide(y), small(z);
    std::vector<TensorView> outs;
    for (int r = 0; r < n; ++r) outs.emplace_back(y.data() + 6 * r, 6);
    const auto sum =
        prepared([&](Batch& b) { b.all_reduce(in, ReduceOp::kSum, o); });
    // The factor is the batch's, which is gone when it is used.
    std::vector<float> f(6);
    const auto scaled = prepared([&](Batch& b) {
      b.all_reduce(TensorView(f), ReduceOp::premul_sum(2.0), o);
    });
    const auto gathered =
        prepared([&](Batch& b) { b.all_gather_into_tensor(wide, in, o); });
    const auto listed = prepared([&](Batch& b) { b.all_gather(outs, in, o); });
    const auto scattered = prepared([&](Batch& b) {
      b.reduce_scatter_tensor(small, in, ReduceOp::kSum, o);
    });
    const auto sent =
        prepared([&](Batch& b) { b.broadcast(in, Peer::group(1), o); });
    const auto met = prepared([&](Batch& b) { b.barrier(o); });
    for (int call = 1; call < 5; ++call) {
      const auto fill = [&] {
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = call * (me + 1) + static_cast<int>(i);
        y.assign(y.size(), -1);
      };
      fill();
      ASSERT_TRUE(sum.start().ok());
      for (size_t i = 0; i < 6; ++i)
        ASSERT_EQ(x[i], 6 * call + 3 * static_cast<int>(i));
      f.assign(6, static_cast<float>(call + me));
      ASSERT_TRUE(scaled.start().ok());
      ASSERT_EQ(f[5], static_cast<float>(2 * (3 * call + 3)));
      for (const PreparedOperation& one : {gathered, listed}) {
        fill();
        ASSERT_TRUE(one.start().ok());
        for (size_t r = 0; r < 3; ++r)
          ASSERT_EQ(y[6 * r + 5], call * (static_cast<int>(r) + 1) + 5);
      }
      fill();
      ASSERT_TRUE(scattered.start().ok());
      ASSERT_EQ(z[1], 6 * call + 3 * (2 * me + 1));
      fill();
      ASSERT_TRUE(sent.start().ok());
      ASSERT_EQ(x[0], 2 * call);
      ASSERT_TRUE(met.start().ok());
    }
  });
}

TEST(Prepared, DifferentCountsAreNamedAndBreakNothing) {
  run_over_each(3, {}, [](Session& session) {
    const OpOptions o{.group = session.world(), .label = "rows"};
    Exchange exchange(session.rank(), 3);
    // Rank 2 expects one element more of rank 0.
    if (session.rank() == 2) {
      ++exchange.from[0];
      exchange.out.resize(exchange.out.size() + 1);
    }
    const auto made = prepare(exchange, o);
    ASSERT_FALSE(made.ok());
    const std::optional<ErrorInfo> info = error_info(made.status());
    ASSERT_TRUE(info.has_value()) << made.status();
    EXPECT_EQ(info->reason, Reason::kCallMismatch);
    EXPECT_THAT(info->ranks, ElementsAre(0, 2));
    EXPECT_THAT(info->expected, HasSubstr("(rank 2): 7 of rank 0"));
    EXPECT_THAT(info->actual, HasSubstr("(rank 0): 6 to rank 2"));
    EXPECT_EQ(info->label, "rows");
    EXPECT_TRUE(barrier(o).ok());
  });
}

TEST(Prepared, DifferentOperationsAreNamedAndBreakNothing) {
  run_over_each(3, {}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    std::vector<float> x(8);
    Batch batch;
    batch.all_reduce(TensorView(x.data(), session.rank() == 1 ? 7 : 8),
                     ReduceOp::kSum, o);
    const auto made = batch.prepare();
    const std::optional<ErrorInfo> info = error_info(made.status());
    ASSERT_TRUE(info.has_value()) << made.status();
    EXPECT_EQ(info->reason, Reason::kCallMismatch);
    EXPECT_THAT(info->ranks, ElementsAre(1));
    EXPECT_THAT(info->expected, HasSubstr("all_reduce f32 x 8 sum (rank 0)"));
    EXPECT_THAT(info->actual, HasSubstr("all_reduce f32 x 7 sum (rank 1)"));
    EXPECT_TRUE(barrier(o).ok());
  });
}

TEST(Prepared, ARankThatCannotIsNamedOnAll) {
  run_over_each(3, {}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    std::vector<float> x(8);
    Batch batch;
    batch.all_reduce(TensorView(session.rank() == 2 ? nullptr : x.data(), 8),
                     ReduceOp::kSum, o);
    const auto made = batch.prepare();
    EXPECT_EQ(error_reason(made.status()), Reason::kInvalidArgument)
        << made.status();
    if (session.rank() != 2) {
      EXPECT_THAT(error_info(made.status())->ranks, ElementsAre(2));
      EXPECT_THAT(std::string(made.status().message()),
                  HasSubstr("rank 2 cannot prepare the operation"));
    }
    EXPECT_TRUE(barrier(o).ok());
  });
}

TEST(Prepared, OnlyOneCollective) {
  run_ranks(1, {.backend = "loopback"}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    float x = 1;
    Batch none;
    EXPECT_EQ(error_reason(none.prepare().status()), Reason::kInvalidArgument);
    Batch two;
    two.barrier(o);
    two.barrier(o);
    EXPECT_EQ(error_reason(two.prepare().status()), Reason::kInvalidArgument);
    Batch message;
    message.send(TensorView(&x, 1), Peer::group(0), 0, o);
    EXPECT_EQ(error_reason(message.prepare().status()),
              Reason::kInvalidArgument);
    Batch once;
    once.barrier(o);
    EXPECT_TRUE(once.prepare().ok());
    EXPECT_EQ(error_reason(once.prepare().status()), Reason::kAlreadySubmitted);
    EXPECT_EQ(error_reason(once.submit().status()), Reason::kAlreadySubmitted);
    EXPECT_EQ(error_reason(PreparedOperation().start().status()),
              Reason::kInvalidArgument);
  });
}

TEST(Prepared, BuffersThatAreNotLikeThePreparedOnesAreRefused) {
  run_ranks(2, {.backend = "shm"}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    std::vector<float> x(16), y(16);
    Batch apart;
    apart.all_reduce(TensorView(y.data(), 8), TensorView(x.data(), 8),
                     ReduceOp::kSum, o);
    const auto sum = apart.prepare();
    ASSERT_TRUE(sum.ok()) << sum.status();
    Batch same;
    same.all_reduce(TensorView(x.data(), 8), ReduceOp::kSum, o);
    const auto in_place = same.prepare();
    ASSERT_TRUE(in_place.ok()) << in_place.status();
    std::vector<TensorView> outs = {{y.data(), 8}, {y.data() + 8, 8}};
    Batch list;
    list.all_gather(outs, TensorView(x.data(), 8), o);
    const auto listed = list.prepare();
    ASSERT_TRUE(listed.ok()) << listed.status();

    std::vector<double> doubles(8);
    const TensorView good(x.data(), 8);
    const TensorView constant(static_cast<const float*>(y.data()), 8);
    const absl::Status bad[] = {
        sum->start(TensorView(y.data(), 7), good).status(),
        sum->start(TensorView(doubles), good).status(),
        sum->start(TensorView(static_cast<float*>(nullptr), 8), good).status(),
        sum->start(constant, good).status(),
        sum->start(TensorView(x.data() + 4, 8), good).status(),
        sum->start({.timeout = absl::ZeroDuration()}).status(),
        in_place->start(TensorView(y.data(), 8), good).status(),
        listed->start(TensorView(y), good).status(),
    };
    for (const absl::Status& status : bad)
      EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << status;
    // Nothing was sent, and no number was used.
    EXPECT_TRUE(sum->start(TensorView(y.data() + 8, 8), good).ok());
    EXPECT_TRUE(in_place->start(good, good).ok());
    EXPECT_TRUE(listed->start().ok());
  });
}

TEST(Prepared, ARankWithoutAnInputStartsOnAnotherOutput) {
  run_over_each(3, {}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    const int me = session.rank();
    std::vector<float> all(6), own(2), other(2);
    std::iota(all.begin(), all.end(), 0.0F);
    const TensorView in = me == 1 ? TensorView(all) : TensorView();
    Batch batch;
    batch.scatter_tensor(TensorView(own), in, Peer::group(1), {}, o);
    const auto scattered = batch.prepare();
    ASSERT_TRUE(scattered.ok()) << scattered.status();
    const auto started = scattered->start(TensorView(other), in);
    ASSERT_TRUE(started.ok()) << started.status();
    EXPECT_EQ(other[1], static_cast<float>(2 * me + 1));
    EXPECT_EQ(own[1], 0);
  });
}

// The buffers of a start that is under way are its own.
TEST(Prepared, ASecondStartOnBuffersInUseIsRefused) {
  run_over_each(3, {}, [](Session& session) {
    const OpOptions o{.group = session.world(), .label = "rows"};
    Exchange own(session.rank(), 3), other(session.rank(), 3);
    const auto exchange = prepare(own, o);
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    own.fill(1);
    other.fill(2);
    float word = 0;
    const TensorView message(&word, 1);
    if (session.rank() == 0) {
      // No other rank starts before it gets its message.
      const auto first = exchange->start({.async = true});
      ASSERT_TRUE(first.ok()) << first.status();
      for (const bool async : {false, true}) {
        const absl::Status second = exchange->start({.async = async}).status();
        EXPECT_EQ(error_reason(second), Reason::kInvalidArgument) << second;
        EXPECT_THAT(std::string(second.message()),
                    AllOf(HasSubstr("still uses"), HasSubstr("rows")));
      }
      const auto beside = exchange->start(
          TensorView(other.out), TensorView(other.in), {.async = true});
      ASSERT_TRUE(beside.ok()) << beside.status();
      for (const int to : {1, 2})
        ASSERT_TRUE(send(message, Peer::group(to), 0, o).ok());
      EXPECT_TRUE(first->wait().ok());
      EXPECT_TRUE(beside->wait().ok());
    } else {
      ASSERT_TRUE(recv(message, Peer::group(0), 0, o).ok());
      ASSERT_TRUE(exchange->start().ok());
      ASSERT_TRUE(
          exchange->start(TensorView(other.out), TensorView(other.in)).ok());
    }
    own.check(1);
    other.check(2);
    own.fill(3);
    ASSERT_TRUE(exchange->start().ok());
    own.check(3);
  });
}

class PreparedFailures : public ::testing::TestWithParam<const char*> {};

TEST_P(PreparedFailures, AnotherOneIsNamedOnAllRanks) {
  run_ranks(
      3, {.backend = GetParam(), .timeout = absl::Seconds(120)},
      [](Session& session) {
        OpOptions o{.group = session.world(), .label = "first"};
        Exchange one(session.rank(), 3), two(session.rank(), 3);
        const auto first = prepare(one, o);
        // This one has twice the counts.
        for (auto* list : {&two.to, &two.from})
          for (int64_t& count : *list) count *= 2;
        two.in.resize(2 * two.in.size());
        two.out.resize(2 * two.out.size());
        o.label = "second";
        const auto second = prepare(two, o);
        ASSERT_TRUE(first.ok() && second.ok());
        ASSERT_TRUE(first->start().ok());
        const int64_t started_ns = Deadline::now_ns();
        absl::Status status =
            (session.rank() == 2 ? second : first)->start().status();
        while (status.ok()) {
          absl::SleepFor(absl::Milliseconds(10));
          status = barrier(o).status();
        }
        EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - started_ns),
                  absl::Seconds(30));
        const std::optional<ErrorInfo> info = error_info(status);
        ASSERT_TRUE(info.has_value()) << status;
        EXPECT_EQ(info->reason, Reason::kCallMismatch) << status;
        EXPECT_THAT(info->ranks, ElementsAre(2)) << status;
        EXPECT_THAT(info->expected, HasSubstr("first")) << status;
        EXPECT_THAT(info->actual, HasSubstr("second")) << status;
        EXPECT_THAT(info->expected, HasSubstr("all_to_all f32 with counts "
                                              "prepared"));
        EXPECT_EQ(error_reason(first->start().status()), Reason::kGroupBroken);
      });
}

TEST_P(PreparedFailures, TheCallItselfIsAnother) {
  run_ranks(3, {.backend = GetParam(), .timeout = absl::Seconds(120)},
            [](Session& session) {
              const OpOptions o{.group = session.world()};
              Exchange own(session.rank(), 3);
              const auto first = prepare(own, o);
              ASSERT_TRUE(first.ok()) << first.status();
              absl::Status status = session.rank() == 2
                                        ? all_to_all_single(TensorView(own.out),
                                                            TensorView(own.in),
                                                            own.from, own.to, o)
                                              .status()
                                        : first->start().status();
              while (status.ok()) {
                absl::SleepFor(absl::Milliseconds(10));
                status = barrier(o).status();
              }
              EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
              EXPECT_THAT(error_info(status)->ranks, ElementsAre(2));
            });
}

TEST_P(PreparedFailures, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  std::latch given_up(2);
  run_ranks(3, {.backend = GetParam()}, [&](Session& session) {
    const OpOptions o{.group = session.world()};
    Exchange own(session.rank(), 3);
    const auto exchange = prepare(own, o);
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    ASSERT_TRUE(exchange->start().ok());
    if (session.rank() == 2) return given_up.wait();
    const int64_t started_ns = Deadline::now_ns();
    const absl::StatusOr<Work> work =
        exchange->start({.async = session.rank() == 0,
                         .timeout = absl::Milliseconds(300),
                         .label = "late"});
    const absl::Status status = work.ok() ? work->wait() : work.status();
    given_up.count_down();
    EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - started_ns),
              absl::Milliseconds(400) + kSlack);
    // The rank whose deadline comes first may tell the other one.
    EXPECT_THAT(error_reason(status),
                AnyOf(Reason::kTimedOut, Reason::kAborted))
        << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("kTimedOut"));
    EXPECT_THAT(error_info(status)->ranks, ElementsAre(2)) << status;
    EXPECT_EQ(error_info(status)->label, "late");
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, PreparedFailures,
                         ::testing::ValuesIn(testing::host_backends()),
                         testing::name_of_backend);

TEST(Prepared, HooksSeeEveryStart) {
  run_ranks(2, {.backend = "shm"}, [](Session& session) {
    bind_session(session);
    Exchange own(session.rank(), 2);
    const auto exchange = prepare(own, OpOptions{.group = session.world()});
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    testing::Diary diary;
    const auto hook = add_hook(session.world(), testing::writing(diary));
    ASSERT_TRUE(hook.ok()) << hook.status();
    for (int call = 0; call < 3; ++call) {
      own.fill(call);
      ASSERT_TRUE(exchange->start().ok());
      own.check(call);
      EXPECT_THAT(diary.take(),
                  ElementsAre("pre all_to_all", "post all_to_all ok"));
    }
  });
}

TEST(Prepared, EndsWithItsGroup) {
  run_over_each(2, {}, [](Session& session) {
    bind_session(session);
    PreparedOperation kept;
    {
      const auto made = new_group({.ranks = std::vector<int>{0, 1}});
      ASSERT_TRUE(made.ok()) << made.status();
      Exchange own(session.rank(), 2);
      for (int i = 0; i < 3; ++i) {
        const auto exchange = prepare(own, OpOptions{.group = *made});
        ASSERT_TRUE(exchange.ok()) << exchange.status();
        ASSERT_TRUE(exchange->start().ok());
        kept = *exchange;
      }
      ASSERT_TRUE(destroy_process_group(*made).ok());
    }
    EXPECT_EQ(error_reason(kept.start().status()), Reason::kGroupClosed);
  });
}

}  // namespace
}  // namespace distwrap
