// Recorded operations of ranks are repeated, call by call.
#include "bench/replay/play.h"
#include "bench/replay/read.h"
#include "ranks/facade_ranks.h"
#include "ranks/recordings_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace distwrap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class Replays : public ::testing::Test {
 protected:
  void record(int n, const std::function<void(int)>& body) {
    run_ranks(n, {.backend = "gloo", .timeout = absl::Seconds(60)},
              [&](Session& session) {
                bind_session(session);
                body(session.rank());
                ASSERT_TRUE(session.save_recording().ok());
                bind_session({});
              });
  }

  const testing::RecordingsFolder folder_;
};

std::map<std::string, int64_t> played(const bench::ReplayScript& script,
                                      const std::string& backend, int repeat) {
  std::map<std::string, int64_t> calls;
  run_ranks(script.size(), {.backend = backend, .timeout = absl::Seconds(60)},
            [&](Session& session) {
              bind_session(session);
              const auto times = bench::play(script, repeat);
              EXPECT_TRUE(times.ok()) << times.status();
              if (times.ok() && session.rank() == 0) {
                EXPECT_GT(times->total_us, 0);
                for (const bench::ReplayRow& row : times->rows)
                  calls[row.op] = row.calls;
              }
              bind_session({});
            });
  return calls;
}

TEST_F(Replays, AllKindsInGroupsAndBatches) {
  record(3, [](int rank) {
    std::vector<float> x(64, 1), y(64);
    const auto a = [&](int64_t n) { return TensorView(x.data(), n); };
    const auto b = [&](int64_t n) { return TensorView(y.data(), n); };
    const auto pair = split_group_by_color(rank == 1 ? 1 : 0, -rank);
    ASSERT_TRUE(pair.ok()) << pair.status();
    finish(barrier());
    finish(all_reduce(a(8), ReduceOp::kMax));
    const auto begun = all_reduce(b(8), a(8), ReduceOp::kSum, {.async = true});
    finish(broadcast(a(3), Peer::group(2)));
    finish(begun);
    finish(reduce(b(3), a(3), Peer::group(1), ReduceOp::kSum));
    finish(all_gather_v(b(6), a(rank + 1), {1, 2, 3}));
    finish(gather_into_tensor(b(3), a(1), Peer::group(0)));
    finish(scatter_tensor(b(1), a(3), Peer::group(0)));
    finish(reduce_scatter_v(b(rank + 1), a(6), {1, 2, 3}));
    finish(all_to_all_single(b(6), a(6)));
    finish(scan(b(4), a(4)));
    finish(all_reduce(a(rank == 1 ? 1 : 5), ReduceOp::kSum, {.group = *pair}));
    Batch ring;
    ring.send(a(5), Peer::group((rank + 1) % 3), 3);
    ring.recv(b(5), Peer::group((rank + 2) % 3), 3);
    finish(ring.submit());
    ASSERT_TRUE(destroy_process_group(*pair).ok());
  });
  const auto script = bench::read_replay(folder_.path());
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_EQ(script->source, "recordings");
  EXPECT_THAT(script->notes, IsEmpty());
  EXPECT_EQ(script->groups.size(), 3u);
  for (const char* const backend : {"gloo", "shm"})
    EXPECT_THAT(
        played(*script, backend, 2),
        ElementsAre(Pair("all_gather", 6), Pair("all_reduce", 18),
                    Pair("all_to_all", 6), Pair("barrier", 6),
                    Pair("broadcast", 6), Pair("gather", 6), Pair("recv", 6),
                    Pair("reduce", 6), Pair("reduce_scatter", 6),
                    Pair("scan", 6), Pair("scatter", 6), Pair("send", 6)));
}

TEST_F(Replays, OnMoreAndFewerRanks) {
  record(3, [](int rank) {
    std::vector<float> x(64, 1), y(64);
    finish(all_gather_into_tensor(TensorView(y.data(), 6),
                                  TensorView(x.data(), 2)));
    finish(broadcast(TensorView(x), Peer::group(2)));
    const auto sent = isend(TensorView(x), Peer::group((rank + 1) % 3));
    ASSERT_TRUE(sent.ok());
    ASSERT_TRUE(recv(TensorView(y), Peer::group((rank + 2) % 3)).ok());
    ASSERT_TRUE(sent->wait().ok());
  });
  const auto script = bench::read_replay(folder_.path());
  ASSERT_TRUE(script.ok()) << script.status();
  for (const int ranks : {2, 5}) {
    const auto other = bench::scaled(*script, ranks);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_THAT(played(*other, "gloo", 1),
                ElementsAre(Pair("all_gather", ranks), Pair("broadcast", ranks),
                            Pair("recv", ranks), Pair("send", ranks)));
  }
}

}  // namespace
}  // namespace distwrap::testing
