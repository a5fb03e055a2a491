// Operations that the waiter runs itself.
#include "distwrap/abi/plugin.h"
#include "fakes/compose_over.h"
#include "host.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <vector>

namespace distwrap::conformance {
namespace {

using shm_test::run_threads;

// As the host has it: below a decorator with works of its own.
const dw_backend_api& composed() {
  return fakes::compose_over<fakes::table_of<dw_plugin_query_v1_shm>>();
}

constexpr std::chrono::seconds kLong{60};

// An all_reduce of f32 that nobody waits for in its call.
struct Begun {
  Begun(Member& member, dw_comm* comm, uint64_t seq, size_t count = 4)
      : in(count, static_cast<float>(member.rank + 1)), out(count, -1) {
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_ALL_REDUCE;
    op.reduce = DW_REDUCE_SUM;
    op.peer = -1;
    op.in.data = in.data();
    op.out.data = out.data();
    op.in.count = op.out.count = static_cast<int64_t>(count);
    op.in.dtype = op.out.dtype = {2, 32, 1};
    op.seq = seq;
    dw_error error = {};
    code = member.api.submit(comm, &op, &work, &error);
    EXPECT_EQ(code, DW_OK) << error_text(code, error);
  }
  void expect_end(int size) {
    EXPECT_TRUE(work.wait(kLong));
    EXPECT_EQ(work.completions(), 1);
    EXPECT_EQ(work.code(), DW_OK) << work.error().text;
    EXPECT_EQ(out, std::vector<float>(
                       out.size(), static_cast<float>(size * (size + 1) / 2)));
  }

  std::vector<float> in, out;
  dw_work work;
  int32_t code = DW_OK;
};

void expect_runs_what_has_not_begun(const dw_backend_api& api) {
  for (int size : {2, 3}) {
    Findings findings;
    run_team(api, size, Limits(), findings, [&](Member& member) {
      int run_here = 0;
      for (uint64_t round = 0; round < 300; ++round) {
        std::array<Begun, 3> begun = {
            Begun(member, member.comm, 3 * round + 1),
            Begun(member, member.comm, 3 * round + 2),
            Begun(member, member.comm, 3 * round + 3)};
        if (member.api.run_queued(member.comm, 3 * round + 3) == DW_DONE) {
          ++run_here;
          for (Begun& one : begun) EXPECT_EQ(one.work.completions(), 1);
        }
        for (Begun& one : begun) one.expect_end(size);
        // An ended operation is not known any more.
        EXPECT_EQ(member.api.run_queued(member.comm, 3 * round + 1), DW_OK);
      }
      // The thread, too, may run what has waited for long.
      EXPECT_GT(run_here, 0);
    });
    EXPECT_TRUE(findings.empty()) << findings.text();
  }
}

TEST(ShmWaiter, RunsWhatHasNotBegun) {
  expect_runs_what_has_not_begun(shm_test::shm());
}

TEST(ShmWaiter, RunsItBelowADecorator) {
  expect_runs_what_has_not_begun(composed());
}

TEST(ShmWaiter, NobodyHasToWait) {
  run_threads(2, [&](Member& member) {
    Begun small(member, member.comm, 1), large(member, member.comm, 2, 100000),
        last(member, member.comm, 3);
    for (Begun* one : {&small, &large, &last}) one->expect_end(2);
  });
}

// Each rank waits first for what the other waits for last.
TEST(ShmWaiter, TwoGroupsInAnyOrder) {
  run_threads(2, [&](Member& member) {
    dw_comm* const first = member.comm;
    ASSERT_TRUE(build_communicator(member, 77));
    dw_comm* const second = member.comm;
    member.comm = first;
    for (uint64_t round = 1; round <= 100; ++round) {
      Begun a(member, first, round), b(member, second, round);
      if (member.rank == 0) {
        member.api.run_queued(first, round);
        member.api.run_queued(second, round);
      } else {
        member.api.run_queued(second, round);
        member.api.run_queued(first, round);
      }
      a.expect_end(2);
      b.expect_end(2);
    }
    member.meeting.meet();
    EXPECT_EQ(member.api.comm_destroy(second, 0, nullptr), DW_OK);
  });
}

TEST(ShmWaiter, AbortEndsIt) {
  run_threads(2, [&](Member& member) {
    if (member.rank == 1) {
      member.meeting.meet();
      member.aborts();
      return;
    }
    Begun alone(member, member.comm, 1);
    member.meeting.meet();
    member.api.run_queued(member.comm, 1);
    EXPECT_TRUE(alone.work.wait(kLong));
    EXPECT_NE(alone.work.code(), DW_OK);
  });
}

}  // namespace
}  // namespace distwrap::conformance
