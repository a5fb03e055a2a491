// How much of the caches an operation leaves to others: what goes past them,
// and how much of the staging is used in turn.
#include "run.h"

#include "thread_ranks.h"

#include <gtest/gtest.h>

namespace distwrap::shm_test {
namespace {

constexpr size_t kMib = 1 << 20;

void with_run(int size, const std::function<void(shm_backend::Run&)>& body) {
  run_threads(size, [&](conformance::Member& member) {
    const shm_backend::EngineOp call;
    dw_error error = {};
    shm_backend::Comm& comm = *shm_backend::of(member.comm);
    comm.stage.limit = 2 * kMib;  // as large staging would have it
    shm_backend::Run run(&comm, call, &error);
    body(run);
  });
}

TEST(Run, ResultsGoPastTheCachesByWhatAllRanksHave) {
  struct Case {
    int size;
    size_t result, input;  // MiB of each rank
    bool past;
  };
  for (const Case one :
       {Case{2, 7, 7, false}, Case{2, 8, 8, true}, Case{2, 12, 0, false},
        Case{2, 16, 0, true}, Case{4, 3, 3, false}, Case{4, 4, 4, true}})
    with_run(one.size, [&](shm_backend::Run& run) {
      run.expect(one.result * kMib, one.input * kMib);
      EXPECT_EQ(run.past_caches(), one.past)
          << one.size << " ranks, " << one.result << " MiB";
    });
}

// Not all ranks of a large group share a cache.
TEST(Run, NoMoreThanEightRanksCount) {
  with_run(12, [](shm_backend::Run& run) {
    run.expect(3 * kMib / 2, 3 * kMib / 2);
    EXPECT_FALSE(run.past_caches());
    run.expect(2 * kMib, 2 * kMib);
    EXPECT_TRUE(run.past_caches());
  });
}

TEST(Run, CrowdedExchangesUseLessOfTheRingTheLargerTheyAre) {
  with_run(3, [](shm_backend::Run& run) {
    const auto ring = [&](size_t bytes, bool oversubscribed) {
      run.comm->oversubscribed = oversubscribed;
      shm_backend::Run one(run.comm, run.call, nullptr);
      one.share_caches(bytes);
      return one.ring();
    };
    EXPECT_EQ(ring(kMib / 4, true), 2 * kMib);
    EXPECT_EQ(ring(kMib / 2, true), kMib);
    EXPECT_EQ(ring(kMib, true), kMib / 2);
    EXPECT_EQ(ring(8 * kMib, true), kMib / 2);
    EXPECT_EQ(ring(8 * kMib, false), 2 * kMib);
    // Data that bypass the caches must not stay in them.
    run.comm->oversubscribed = true;
    run.expect(8 * kMib, 8 * kMib);
    run.share_caches(8 * kMib);
    EXPECT_EQ(run.ring(), 2 * kMib);
  });
}

}  // namespace
}  // namespace distwrap::shm_test
