// Many calls at the same time: from threads, on several groups, asynchronous.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <dirent.h>
#include <mutex>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

using distwrap::testing::run_ranks;

int threads_of_process() {
  int n = 0;
  DIR* const folder = opendir("/proc/self/task");
  while (readdir(folder) != nullptr) ++n;
  closedir(folder);
  return n - 2;  // "." and ".."
}

class Load : public ::testing::TestWithParam<const char*> {
 protected:
  static InitOptions options() {
    return {.backend = GetParam(), .timeout = absl::Seconds(120)};
  }
};

// Threads that share a group take turns; a thread waits outside of its turn.
TEST_P(Load, TwoThreadsOnOneGroup) {
  constexpr int kMessages = 300;
  run_ranks(2, options(), [](Session& session) {
    std::mutex turn;
    const auto talk = [&](int64_t tag) {
      bind_session(session);
      const Peer other = Peer::group(1 - session.rank());
      for (int i = 0; i < kMessages; ++i) {
        std::vector<int64_t> out(64, i + tag), in(64, -1);
        const std::vector<P2POp> both = {{.kind = P2POp::Kind::kIsend,
                                          .tensor = TensorView(out),
                                          .peer = other,
                                          .tag = tag},
                                         {.kind = P2POp::Kind::kIrecv,
                                          .tensor = TensorView(in),
                                          .peer = other,
                                          .tag = tag}};
        absl::StatusOr<std::vector<Work>> works;
        {
          const std::lock_guard<std::mutex> lock(turn);
          works = batch_isend_irecv(both);
        }
        ASSERT_TRUE(works.ok()) << works.status();
        ASSERT_TRUE(wait_all(*works).ok());
        EXPECT_EQ(in, out);
      }
      bind_session({});
    };
    std::thread second(talk, 1000);
    talk(0);
    second.join();
  });
}

TEST_P(Load, EightGroupsInParallel) {
  constexpr int kGroups = 8, kCalls = 100;
  run_ranks(2, options(), [](Session& session) {
    bind_session(session);
    std::vector<Group> groups;
    for (int g = 0; g < kGroups; ++g) {
      auto group = split_group({.split_ranks = {{0, 1}}});
      ASSERT_TRUE(group.ok()) << group.status();
      groups.push_back(*std::move(group));
    }
    std::vector<std::thread> threads;
    for (int g = 0; g < kGroups; ++g)
      threads.emplace_back([&, g] {
        for (int i = 0; i < kCalls; ++i) {
          std::vector<int64_t> x(100, session.rank() + g + i);
          const auto work = all_reduce(
              TensorView(x), ReduceOp::kSum,
              {.group = groups[static_cast<size_t>(g)], .async = i % 2 == 0});
          ASSERT_TRUE(work.ok()) << work.status();
          ASSERT_TRUE(work->wait().ok());
          EXPECT_EQ(x, std::vector<int64_t>(100, 1 + 2 * (g + i)));
        }
      });
    for (std::thread& thread : threads) thread.join();
    bind_session({});
  });
}

TEST_P(Load, AThousandOutstandingOperationsAddNoThread) {
  constexpr int kCalls = 500;
  run_ranks(2, options(), [](Session& session) {
    bind_session(session);
    const Peer other = Peer::group(1 - session.rank());
    std::vector<std::vector<int64_t>> sums(kCalls), out(kCalls), in(kCalls);
    std::vector<Work> works;
    const auto keep = [&](absl::StatusOr<Work> work) {
      ASSERT_TRUE(work.ok()) << work.status();
      works.push_back(*std::move(work));
    };
    int threads = 0;
    for (size_t i = 0; i < kCalls; ++i) {
      const auto value = static_cast<int64_t>(i);
      sums[i].assign(16, value + session.rank());
      out[i].assign(16, value);
      in[i].assign(16, -1);
      keep(irecv(TensorView(in[i]), other, value));
      keep(all_reduce(TensorView(sums[i]), ReduceOp::kSum, {.async = true}));
      keep(isend(TensorView(out[i]), other, value));
      if (i == 0) {
        // When the first sum is there, the second rank has come as far.
        ASSERT_TRUE(works[1].wait().ok());
        threads = threads_of_process();
      }
    }
    EXPECT_LE(threads_of_process(), threads + 1) << "the other rank's first";
    EXPECT_TRUE(wait_all(works).ok());
    for (size_t i = 0; i < kCalls; ++i) {
      const auto value = static_cast<int64_t>(i);
      EXPECT_EQ(sums[i], std::vector<int64_t>(16, 2 * value + 1));
      EXPECT_EQ(in[i], out[i]);
    }
    bind_session({});
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Load,
                         ::testing::ValuesIn(testing::host_backends()),
                         testing::name_of_backend);

}  // namespace
}  // namespace distwrap
