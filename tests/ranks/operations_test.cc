// Operations through the host's own path: communicator, decorator, backend. The
// conformance suite tests each backend in all corners.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::run_ranks;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

void finish(const absl::StatusOr<Work>& work) {
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::Status status = work->wait();
  ASSERT_TRUE(status.ok()) << status;
}

// Element i of rank r.
int64_t value(int rank, int64_t i) { return 1000 * rank + i; }
Ints values(int rank, int64_t n, int64_t from = 0) {
  Ints result(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    result[static_cast<size_t>(i)] = value(rank, from + i);
  return result;
}
int64_t sum_of(int ranks, int64_t i) {
  int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, i);
  return sum;
}

using Parameters = std::tuple<std::string, int, bool>;

class Operations : public ::testing::TestWithParam<Parameters> {
 protected:
  int n() const { return std::get<1>(GetParam()); }
  CallOptions how() const { return {.async = std::get<2>(GetParam())}; }
  void run(const std::function<void(Communicator&, int)>& body) const {
    run_ranks(
        n(), {.backend = std::get<0>(GetParam()), .timeout = absl::Seconds(60)},
        [&](Session& session) {
          const absl::StatusOr<Communicator*> communicator =
              session.world().communicator();
          ASSERT_TRUE(communicator.ok());
          body(**communicator, session.rank());
        });
  }
  // Rank r has r + 1 elements, the last rank none; and their places.
  Ints counts() const {
    Ints result(static_cast<size_t>(n()));
    std::iota(result.begin(), result.end(), 1);
    if (n() > 1) result.back() = 0;
    return result;
  }
  // In reverse order, with a gap of one element before each.
  static Ints displs_of(const Ints& counts) {
    Ints result(counts.size());
    int64_t at = 0;
    for (size_t r = counts.size(); r-- > 0;) {
      result[r] = ++at;
      at += counts[r];
    }
    return result;
  }
};

TEST_P(Operations, Rooted) {
  run([this](Communicator& c, int me) {
    constexpr int64_t kCount = 70;
    for (int root = 0; root < n(); ++root) {
      const Ints mine = values(me, kCount);
      Ints sum(kCount, -1), all(static_cast<size_t>(n() * kCount), -1);
      finish(c.reduce(TensorView(sum), TensorView(mine), root, ReduceOp::kSum,
                      how()));
      finish(c.gather(TensorView(all), TensorView(mine), root, how()));
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(sum[static_cast<size_t>(i)],
                  me == root ? sum_of(n(), i) : -1);
      for (int r = 0; r < n(); ++r)
        for (int64_t i = 0; i < kCount; ++i)
          ASSERT_EQ(all[static_cast<size_t>(r * kCount + i)],
                    me == root ? value(r, i) : -1);
      const Ints whole = values(root, n() * kCount);
      Ints part(kCount, -1);
      finish(c.scatter(TensorView(part), TensorView(whole), root, how()));
      ASSERT_EQ(part, values(root, kCount, me * kCount));
    }
  });
}

TEST_P(Operations, CountsPerRank) {
  run([this](Communicator& c, int me) {
    const Ints counts = this->counts(), displs = displs_of(counts);
    const int64_t mine = counts[static_cast<size_t>(me)];
    const int64_t room = displs[0] + counts[0] + 1;
    const Counts placed{counts, displs};
    const auto expect_pieces = [&](const Ints& out) {
      Ints want(static_cast<size_t>(room), -1);
      for (size_t r = 0; r < counts.size(); ++r)
        for (int64_t i = 0; i < counts[r]; ++i)
          want[static_cast<size_t>(displs[r] + i)] =
              value(static_cast<int>(r), i);
      ASSERT_EQ(out, want);
    };
    const Ints input = values(me, mine);
    Ints out(static_cast<size_t>(room), -1);
    finish(c.all_gather_v(TensorView(out), TensorView(input), placed, how()));
    expect_pieces(out);
    for (int root = 0; root < n(); ++root) {
      std::fill(out.begin(), out.end(), -1);
      finish(
          c.gather_v(TensorView(out), TensorView(input), root, placed, how()));
      if (me == root) expect_pieces(out);
      const Ints whole = values(root, room);
      Ints part(static_cast<size_t>(mine), -1);
      finish(c.scatter_v(TensorView(part), TensorView(whole), root, placed,
                         how()));
      ASSERT_EQ(part, values(root, mine, displs[static_cast<size_t>(me)]));
    }
    const Ints whole = values(me, room);
    Ints part(static_cast<size_t>(mine), -1);
    finish(c.reduce_scatter_v(TensorView(part), TensorView(whole), placed,
                              ReduceOp::kSum, how()));
    for (int64_t i = 0; i < mine; ++i)
      ASSERT_EQ(part[static_cast<size_t>(i)],
                sum_of(n(), displs[static_cast<size_t>(me)] + i));
  });
}

// Rank i sends i + j elements to rank j.
TEST_P(Operations, AllToAllOfEveryPair) {
  run([this](Communicator& c, int me) {
    Ints counts;
    for (int r = 0; r < n(); ++r) counts.push_back(me + r);
    const int64_t total =
        std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const Ints in = values(me, total);
    Ints out(static_cast<size_t>(total), -1);
    finish(c.all_to_all_v(TensorView(out), TensorView(in), {counts}, {counts},
                          how()));
    size_t at = 0;
    for (int from = 0; from < n(); ++from) {
      int64_t before = 0;  // elements that `from` sends to earlier ranks
      for (int r = 0; r < me; ++r) before += from + r;
      for (int64_t i = 0; i < from + me; ++i)
        ASSERT_EQ(out[at++], value(from, before + i));
    }
  });
}

TEST_P(Operations, Scans) {
  run([this](Communicator& c, int me) {
    constexpr int64_t kCount = 33;
    const Ints in = values(me, kCount);
    Ints out(kCount, -1);
    finish(c.scan(TensorView(out), TensorView(in), ReduceOp::kSum, how()));
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(out[static_cast<size_t>(i)], sum_of(me + 1, i));
    std::fill(out.begin(), out.end(), -1);
    finish(c.exscan(TensorView(out), TensorView(in), ReduceOp::kSum, how()));
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(out[static_cast<size_t>(i)], me == 0 ? -1 : sum_of(me, i));
  });
}

TEST_P(Operations, FactorsAndAverages) {
  run([this](Communicator& c, int me) {
    const Floats in(9, static_cast<float>(me + 1));
    Floats out(9, -1);
    const double factor = 0.5 * (me + 1);  // different on each rank
    finish(c.all_reduce(TensorView(out), TensorView(in),
                        ReduceOp::premul_sum(factor), how()));
    float want = 0;
    for (int r = 1; r <= n(); ++r)
      want += 0.5f * static_cast<float>(r) * static_cast<float>(r);
    ASSERT_EQ(out, Floats(9, want));
    ASSERT_EQ(in, Floats(9, static_cast<float>(me + 1)));
    const float tensor = 2;
    finish(c.all_reduce(TensorView(out), TensorView(in),
                        ReduceOp::premul_sum(TensorView(&tensor, 1)), how()));
    ASSERT_EQ(out, Floats(9, static_cast<float>(n() * (n() + 1))));
    // Truncated toward zero.
    Ints negative(5, me == 0 ? -3 : 0), average(5, 7);
    finish(c.all_reduce(TensorView(average), TensorView(negative),
                        ReduceOp::kAvg, how()));
    ASSERT_EQ(average, Ints(5, -3 / n()));
  });
}

// A ring of messages, a broadcast and a barrier in one batch, in another order
// on each rank; and a message of a rank to itself.
TEST_P(Operations, BatchesInAnyOrder) {
  run([this](Communicator& c, int me) {
    const int next = (me + 1) % n(), previous = (me + n() - 1) % n();
    const Ints mine = values(me, 50);
    for (int round = 0; round < 3; ++round) {
      Ints left(50, -1), right(50, -1), self(50, -1), news(50, -1);
      Batch batch;
      Communicator& in = batch.on(c);
      const auto add = [](const absl::StatusOr<Work>& recorded) {
        ASSERT_TRUE(recorded.ok()) << recorded.status();
      };
      const auto messages = [&] {
        add(in.recv(TensorView(left), previous, 1));
        add(in.send(TensorView(mine), next, 1));
        add(in.send(TensorView(mine), previous, 2));
        add(in.recv(TensorView(right), next, 2));
      };
      const auto to_self = [&] {
        add(in.send(TensorView(mine), me, 3));
        add(in.recv(TensorView(self), me, 3));
      };
      const auto collectives = [&] {
        add(in.broadcast(TensorView(news), TensorView(mine), 0));
        add(in.barrier());
      };
      switch ((me + round) % 3) {
        case 0:
          messages(), collectives(), to_self();
          break;
        case 1:
          collectives(), to_self(), messages();
          break;
        default:
          to_self(), messages(), collectives();
      }
      finish(batch.submit());
      ASSERT_EQ(batch.works().size(), 8u);
      ASSERT_EQ(left, values(previous, 50));
      ASSERT_EQ(right, values(next, 50));
      ASSERT_EQ(self, mine);
      ASSERT_EQ(news, values(0, 50));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Operations,
    ::testing::ValuesIn(testing::and_ucx<Parameters>(
        {{"loopback", 1, false},
         {"loopback", 1, true},
         {"gloo", 2, false},
         {"gloo", 3, true},
         {"gloo", 4, false},
         {"gloo", 4, true},
         {"shm", 2, false},
         {"shm", 3, true},
         {"shm", 4, false}},
        {{"ucx", 2, false}, {"ucx", 3, true}, {"ucx", 4, false}})),
    [](const auto& test) {
      return std::get<0>(test.param) + std::to_string(std::get<1>(test.param)) +
             (std::get<2>(test.param) ? "Async" : "");
    });

TEST(Messages, ToOneself) {
  run_ranks(1, {.backend = "loopback"}, [](Session& session) {
    Communicator& c = **session.world().communicator();
    const Ints sent{1, 2, 3};
    Ints received(3);
    const absl::Status alone = c.send(TensorView(sent), 0).status();
    EXPECT_EQ(alone.code(), absl::StatusCode::kInvalidArgument) << alone;
    const auto receive = c.recv(TensorView(received), 0, 0, {.async = true});
    ASSERT_TRUE(receive.ok()) << receive.status();
    finish(c.send(TensorView(sent), 0));
    finish(receive);
    EXPECT_EQ(received, sent);
  });
}

}  // namespace
}  // namespace distwrap
