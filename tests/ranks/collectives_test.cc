// Every operation through the facade's own types, over the backends for several
// ranks, on 1 to 4 ranks. The conformance suite tests each backend in all
// corners; here the path to the backend is tested.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/rank_threads.h"

#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::run_over_each;
using ::distwrap::testing::run_ranks;

constexpr int64_t kSizes[] = {0, 1, 3, 1023, 1024, 70000};

// Small integers, different at each place and rank, exact in every type.
template <class T>
T value(int rank, int64_t i) {
  return static_cast<T>((31 * rank + i) % 97);
}

template <class T>
std::vector<T> values(int rank, int64_t n) {
  std::vector<T> result(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    result[static_cast<size_t>(i)] = value<T>(rank, i);
  return result;
}

template <class T>
T reduced(ReduceOp op, int ranks, int64_t i) {
  T result = value<T>(0, i);
  for (int r = 1; r < ranks; ++r) {
    const T v = value<T>(r, i);
    result =
        op == ReduceOp::kSum ? static_cast<T>(result + v) : std::max(result, v);
  }
  return result;
}

// Runs a call, synchronous or not, to its end.
void finish(const absl::StatusOr<Work>& work) {
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::Status status = work->wait();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(work->state(), WorkState::kDone);
}

using Parameters = std::tuple<std::string, int, bool>;

class Collectives : public ::testing::TestWithParam<Parameters> {
 protected:
  int n() const { return std::get<1>(GetParam()); }
  InitOptions options() const {
    return {.backend = std::get<0>(GetParam()), .timeout = absl::Seconds(60)};
  }
  OpOptions in(const Session& session) const {
    return {.group = session.world(), .async = std::get<2>(GetParam())};
  }

  template <class T>
  void all_operations();
};

template <class T>
void Collectives::all_operations() {
  run_ranks(n(), options(), [this](Session& session) {
    const int me = session.rank();
    const OpOptions o = in(session);
    const auto at = [](const std::vector<T>& v, int64_t i) {
      return v[static_cast<size_t>(i)];
    };
    for (const int64_t size : kSizes) {
      SCOPED_TRACE(size);
      const std::vector<T> mine = values<T>(me, size);
      const std::vector<T> whole = values<T>(me, size * n());
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        std::vector<T> out(mine.size(), T{-1}), x = mine;
        finish(all_reduce(TensorView(out), TensorView(mine), op, o));
        finish(all_reduce(TensorView(x), op, o));
        for (int64_t i = 0; i < size; ++i)
          ASSERT_EQ(at(out, i), reduced<T>(op, n(), i)) << i;
        ASSERT_EQ(out, x);

        std::vector<T> part(mine.size(), T{-1});
        finish(
            reduce_scatter_tensor(TensorView(part), TensorView(whole), op, o));
        for (int64_t i = 0; i < size; ++i)
          ASSERT_EQ(at(part, i), reduced<T>(op, n(), me * size + i)) << i;
      }
      for (int root = 0; root < n(); ++root) {
        std::vector<T> out(mine.size(), T{-1}), x = mine;
        finish(
            broadcast(TensorView(out), TensorView(mine), Peer::group(root), o));
        finish(broadcast(TensorView(x), Peer::group(root), o));
        ASSERT_EQ(out, values<T>(root, size));
        ASSERT_EQ(x, out);
      }
      std::vector<T> gathered(whole.size(), T{-1});
      finish(all_gather_into_tensor(TensorView(gathered), TensorView(mine), o));
      std::vector<T> exchanged(whole.size(), T{-1});
      finish(all_to_all_single(TensorView(exchanged), TensorView(whole), {}, {},
                               o));
      for (int r = 0; r < n(); ++r)
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_EQ(at(gathered, r * size + i), value<T>(r, i));
          ASSERT_EQ(at(exchanged, r * size + i), value<T>(r, me * size + i));
        }
      ASSERT_EQ(mine, values<T>(me, size)) << "an input was written";
      ASSERT_EQ(whole, values<T>(me, size * n())) << "an input was written";
    }
    finish(barrier(o));
  });
}

TEST_P(Collectives, FloatsOfEverySize) { all_operations<float>(); }
TEST_P(Collectives, IntegersOfEverySize) { all_operations<int64_t>(); }

TEST_P(Collectives, SequenceNumbersCountCollectivesOnly) {
  run_ranks(n(), options(), [this](Session& session) {
    OpOptions o = in(session);
    o.async = true;
    std::vector<float> x(4);
    for (uint64_t seq = 1; seq <= 3; ++seq) {
      const absl::StatusOr<Work> work =
          all_reduce(TensorView(x), ReduceOp::kSum, o);
      ASSERT_TRUE(work.ok()) << work.status();
      EXPECT_EQ(work->seq(), seq);
      EXPECT_TRUE(work->wait().ok());
      // A refused call uses no sequence number.
      EXPECT_FALSE(all_reduce(TensorView(static_cast<float*>(nullptr), 4),
                              ReduceOp::kSum, o)
                       .ok());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Collectives,
    ::testing::ValuesIn(testing::and_ucx<Parameters>({{"loopback", 1, false},
                                                      {"loopback", 1, true},
                                                      {"gloo", 1, false},
                                                      {"gloo", 2, false},
                                                      {"gloo", 2, true},
                                                      {"gloo", 3, false},
                                                      {"gloo", 4, true},
                                                      {"shm", 2, false},
                                                      {"shm", 3, true},
                                                      {"shm", 4, false}},
                                                     {{"ucx", 1, false},
                                                      {"ucx", 2, false},
                                                      {"ucx", 3, true},
                                                      {"ucx", 4, false}})),
    [](const auto& test) {
      return std::get<0>(test.param) + std::to_string(std::get<1>(test.param)) +
             (std::get<2>(test.param) ? "Async" : "");
    });

TEST(PointToPoint, RingOfEveryMode) {
  for (const int n : {2, 3, 4})
    run_over_each(n, {}, [n](Session& session) {
      const int me = session.rank();
      const OpOptions o{.group = session.world()};
      const int next = (me + 1) % n, previous = (me + n - 1) % n;
      for (const int64_t size : kSizes) {
        std::vector<float> out(static_cast<size_t>(size), -1);
        const std::vector<float> mine = values<float>(me, size);
        // The receive is pending first; it must not delay the send.
        const absl::StatusOr<Work> received =
            irecv(TensorView(out), Peer::group(previous), 7, o);
        const absl::StatusOr<Work> sent =
            isend(TensorView(mine), Peer::group(next), 7, o);
        finish(received);
        finish(sent);
        EXPECT_EQ(out, values<float>(previous, size));
        EXPECT_EQ(received->seq(), 0u);
      }
      if (n == 2) {
        std::vector<float> out(3, -1);
        const std::vector<float> mine = values<float>(me, 3);
        if (me == 0) {
          EXPECT_TRUE(send(TensorView(mine), Peer::group(1), 0, o).ok());
          EXPECT_TRUE(recv(TensorView(out), Peer::group(1), 0, o).ok());
        } else {
          EXPECT_TRUE(recv(TensorView(out), Peer::group(0), 0, o).ok());
          EXPECT_TRUE(send(TensorView(mine), Peer::group(0), 0, o).ok());
        }
        EXPECT_EQ(out, values<float>(1 - me, 3));
      }
    });
}

TEST(PointToPoint, TagsKeepMessagesApart) {
  run_over_each(2, {}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    std::vector<int64_t> a{1}, b{2};
    if (session.rank() == 0) {
      const auto first = isend(TensorView(a), Peer::group(1), 10, o);
      const auto second = isend(TensorView(b), Peer::group(1), 20, o);
      finish(first);
      finish(second);
    } else {
      std::vector<int64_t> x{0}, y{0};
      EXPECT_TRUE(recv(TensorView(x), Peer::group(0), 20, o).ok());
      EXPECT_TRUE(recv(TensorView(y), Peer::group(0), 10, o).ok());
      EXPECT_EQ(x[0], 2);
      EXPECT_EQ(y[0], 1);
    }
  });
}

// The engine's thread already waits for the receive when the send begins.
TEST(PointToPoint, APendingReceiveBlocksNoSend) {
  run_over_each(2, {}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    std::vector<float> in{0}, out{1};
    const Peer other = Peer::group(1 - session.rank());
    if (session.rank() == 0) {
      const auto late = irecv(TensorView(in), other, 1, o);
      ASSERT_TRUE(late.ok()) << late.status();
      absl::SleepFor(absl::Milliseconds(20));
      const auto sent = isend(TensorView(out), other, 2, o);
      ASSERT_TRUE(sent.ok()) << sent.status();
      EXPECT_TRUE(sent->wait(absl::Seconds(20)).ok());
      EXPECT_TRUE(send(TensorView(out), other, 3, o).ok());
      finish(late);
    } else {
      EXPECT_TRUE(recv(TensorView(in), other, 2, o).ok());
      EXPECT_TRUE(recv(TensorView(in), other, 3, o).ok());
      EXPECT_TRUE(send(TensorView(out), other, 1, o).ok());
    }
    EXPECT_EQ(in[0], 1);
  });
}

// Messages between some ranks do not affect a later collective.
TEST(PointToPoint, AmongSomeThenACollectiveOfAll) {
  run_over_each(3, {}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    std::vector<float> x{1};
    if (session.rank() == 0) {
      EXPECT_TRUE(send(TensorView(x), Peer::group(2), 0, o).ok());
    } else if (session.rank() == 2) {
      EXPECT_TRUE(recv(TensorView(x), Peer::group(0), 0, o).ok());
    }
    finish(barrier(o));
    finish(all_reduce(TensorView(x), ReduceOp::kSum, o));
    EXPECT_EQ(x[0], 3.0f);
  });
}

// An operation whose Work was dropped goes on; its buffers must outlive it, and
// closing the session waits for it.
TEST(Works, ManyAtOnceAndDropped) {
  constexpr size_t kWorks = 100;
  std::vector<std::vector<float>> x[2];
  run_over_each(2, {}, [&x](Session& session) {
    auto& mine = x[session.rank()];
    mine.assign(kWorks, std::vector<float>(16, 1));
    const OpOptions o{.group = session.world(), .async = true};
    std::vector<Work> works;
    for (size_t i = 0; i < kWorks; ++i) {
      absl::StatusOr<Work> work =
          all_reduce(TensorView(mine[i]), ReduceOp::kSum, o);
      ASSERT_TRUE(work.ok()) << work.status();
      if (i % 2 == 0) works.push_back(*std::move(work));  // else dropped
    }
    for (const Work& work : works) EXPECT_TRUE(work.wait().ok());
  });
  for (const auto& of_rank : x)
    for (const std::vector<float>& result : of_rank)
      EXPECT_EQ(result, std::vector<float>(16, 2));
}

TEST(Works, OutliveTheSession) {
  Work work;
  run_ranks(1, {.backend = "loopback"}, [&work](Session& session) {
    std::vector<float> x{1};
    work = *all_reduce(TensorView(x), ReduceOp::kSum,
                       {.group = session.world(), .async = true});
  });
  EXPECT_TRUE(work.test());
  EXPECT_TRUE(work.wait().ok());
}

}  // namespace
}  // namespace distwrap
