// The bits of a reproducible combine: equal at all levels, over all backends,
// and for ranks that are threads or processes.
#include "ranks/moe_bits.h"

#include "host_backends.h"
#include "ranks/rank_threads.h"
#include "ranks/survivors.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace distwrap::testing {
namespace {

TEST(MoeBits, AreEqualForAllLevelsBackendsAndKindsOfRanks) {
  std::set<uint64_t> seen;
  for (const char* const backend : host_backends()) {
    SCOPED_TRACE(backend);
    uint64_t bits[3] = {};
    run_ranks(4, {.backend = backend, .timeout = absl::Seconds(60)},
              [&](Session& session) {
                bind_session(session);
                for (const MoeDedup level :
                     {MoeDedup::kNone, MoeDedup::kRank, MoeDedup::kNode}) {
                  const absl::StatusOr<uint64_t> got = moe_bits(level);
                  ASSERT_TRUE(got.ok()) << got.status();
                  if (session.rank() == 0)
                    bits[static_cast<int>(level) - 1] = *got;
                }
                bind_session({});
              });
    seen.insert(bits, bits + 3);
    Job job(4, {backend}, "60");
    for (size_t r = 0; r < job.size(); ++r) {
      ASSERT_EQ(job.rank(r).wait(), 0) << job.rank(r).err();
      std::istringstream told(job.rank(r).out());
      uint64_t one;
      int levels = 0;
      for (; told >> one; ++levels) seen.insert(one);
      EXPECT_EQ(levels, 3);
    }
  }
  EXPECT_EQ(seen.size(), 1) << "each number is one set of bits";
}

}  // namespace
}  // namespace distwrap::testing
