// A trial while the wall clock steps: fakes/wild_clock.cc is linked in.
#include "distwrap/deadline.h"
#include "plugin/probe.h"
#include "scratch.h"

#include <gtest/gtest.h>

namespace distwrap::plugin {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(1);

TEST(ProbeClock, AStepNeitherEndsNorProlongsATrial) {
  const int64_t start = Deadline::now_ns();
  expect_refused(probe(test_plugin("hangs"), {.limit = kLimit}),
                 Refusal::kHangs, "1s");
  const absl::Duration took = absl::Nanoseconds(Deadline::now_ns() - start);
  EXPECT_GE(took, kLimit);
  EXPECT_LT(took, kLimit + absl::Seconds(10));
}

}  // namespace
}  // namespace distwrap::plugin
