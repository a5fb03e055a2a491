// Two ranks, each with several threads, over several backends.
#ifndef DISTWRAP_TESTS_RANKS_SEVERAL_THREADS_H_
#define DISTWRAP_TESTS_RANKS_SEVERAL_THREADS_H_

#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/hub_ranks.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::testing {

using Ints = std::vector<int64_t>;

// Runs `n` threads with the session bound, to their end.
inline void in_threads(const Session& session, int n,
                       const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < n; ++t)
    threads.emplace_back([&, t] {
      bind_session(session);
      body(t);
      bind_session({});
    });
  for (std::thread& thread : threads) thread.join();
}

inline int64_t sum(int64_t mine, const Group& group = {}) {
  Ints x = {mine};
  const absl::StatusOr<Work> work =
      all_reduce(TensorView(x), ReduceOp::kSum, {.group = group});
  EXPECT_TRUE(work.ok()) << work.status();
  return x[0];
}

inline void send_one(int64_t value, int peer, int64_t tag,
                     const Group& group = {}) {
  Ints x = {value};
  const absl::Status sent =
      send(TensorView(x), Peer::group(peer), tag, {.group = group});
  EXPECT_TRUE(sent.ok()) << sent;
}

inline int64_t receive_one(int peer, int64_t tag, const Group& group = {}) {
  Ints x = {-1};
  const absl::StatusOr<int> from =
      recv(TensorView(x), Peer::group(peer), tag, {.group = group});
  EXPECT_TRUE(from.ok()) << from.status();
  return x[0];
}

class SeveralThreads : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int kRanks = 2;
  InitOptions options() const {
    return {.backend = GetParam(),
            .timeout = absl::Seconds(120),
            .init_timeout = absl::Seconds(120)};
  }
  // Runs on two ranks that are threads; `other` is the peer.
  void run(const std::function<void(Session&, int me, int other)>& body) const {
    run_hub_ranks(kRanks, options(), [&](Session& session) {
      body(session, session.rank(), 1 - session.rank());
    });
  }
  static std::vector<Group> groups(int n) {
    std::vector<Group> made;
    for (int i = 0; i < n; ++i) {
      absl::StatusOr<Group> group = split_group({.split_ranks = {{0, 1}}});
      EXPECT_TRUE(group.ok()) << group.status();
      made.push_back(*std::move(group));
    }
    return made;
  }
};

// With "messages", composed operations are included.
inline const auto kThreadBackends =
    ::testing::ValuesIn(host_backends({"messages"}));

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_SEVERAL_THREADS_H_
