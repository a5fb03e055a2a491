// Calls that differ, ranks that do not come, and what is left afterwards.
#include "checks.h"
#include "distwrap/abi/plugin.h"
#include "host.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::conformance {
namespace {

using shm_test::run_threads;
using Clock = std::chrono::steady_clock;

dw_buf view(std::vector<float>& values) {
  dw_buf buf = {};
  buf.data = values.data();
  buf.count = static_cast<int64_t>(values.size());
  buf.dtype = {2, 32, 1};
  return buf;
}

dw_op all_reduce(std::vector<float>& in, std::vector<float>& out) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = DW_OP_ALL_REDUCE;
  op.reduce = DW_REDUCE_SUM;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = -1;
  op.in = view(in);
  op.out = view(out);
  op.seq = 1;
  return op;
}

int32_t submit(Member& member, const dw_op& op, dw_error* error) {
  return member.api.submit(member.comm, &op, nullptr, error);
}

// On two ranks that call what `change` makes different, both are told so, and
// nothing was written.
void expect_mismatch(size_t count, size_t other_count,
                     const std::function<void(dw_op&)>& change) {
  run_threads(2, [&](Member& member) {
    const bool odd = member.rank == 1;
    std::vector<float> in(odd ? other_count : count, 1), out(in.size(), 7);
    dw_op op = all_reduce(in, out);
    if (odd) change(op);
    dw_error error = {};
    const int32_t code = submit(member, op, &error);
    EXPECT_EQ(code, DW_FAILED_PRECONDITION) << error_text(code, error);
    EXPECT_EQ(error.reason, DW_REASON_CALL_MISMATCH) << error.text;
    EXPECT_EQ(error.peer, 1 - member.rank);
    EXPECT_EQ(out, std::vector<float>(out.size(), 7)) << "it wrote";
    // From now on every call ends by it.
    member.meeting.meet();
    dw_error again = {};
    EXPECT_EQ(submit(member, op, &again), DW_FAILED_PRECONDITION);
    EXPECT_EQ(again.reason, DW_REASON_CALL_MISMATCH) << again.text;
    EXPECT_STREQ(again.text, error.text);
  });
}

TEST(ShmMismatch, Count) {
  expect_mismatch(4, 5, [](dw_op&) {});
  expect_mismatch(1000, 1001, [](dw_op&) {});
  expect_mismatch(100000, 100001, [](dw_op&) {});
  // One of them asks for large staging first.
  expect_mismatch(4, 100000, [](dw_op&) {});
}

TEST(ShmMismatch, Reduction) {
  expect_mismatch(4, 4, [](dw_op& op) { op.reduce = DW_REDUCE_MAX; });
}

TEST(ShmMismatch, Dtype) {
  expect_mismatch(4, 4, [](dw_op& op) {
    op.in.dtype = op.out.dtype = {0, 32, 1};
  });
}

TEST(ShmMismatch, Operation) {
  expect_mismatch(4, 4, [](dw_op& op) {
    op.kind = DW_OP_BARRIER;
    op.reduce = DW_REDUCE_NONE;
    op.in = op.out = {};
  });
}

TEST(ShmMismatch, SequenceNumber) {
  expect_mismatch(4, 4, [](dw_op& op) { op.seq = 2; });
}

TEST(ShmMismatch, FingerprintOfTheHost) {
  expect_mismatch(4, 4, [](dw_op& op) { op.fingerprint = 12345; });
}

TEST(ShmMismatch, CountsOfAPair) {
  run_threads(2, [](Member& member) {
    // Rank 0 sends 3 elements to rank 1, which wants 4.
    std::vector<float> in(8, 1), out(8, 7);
    const int64_t sends[2] = {1, 3}, takes[2] = {1, 3};
    const int64_t sends_1[2] = {3, 1}, takes_1[2] = {4, 1};
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_ALL_TO_ALL;
    op.flags = DW_FLAG_CALLER_WAITS | DW_FLAG_PER_RANK;
    op.peer = -1;
    op.in = view(in);
    op.out = view(out);
    op.in.counts = member.rank == 0 ? sends : sends_1;
    op.out.counts = member.rank == 0 ? takes : takes_1;
    op.in.count = 4;
    op.out.count = member.rank == 0 ? 4 : 5;
    op.seq = 1;
    dw_error error = {};
    const int32_t code = submit(member, op, &error);
    // The pair of rank 0 did agree.
    if (member.rank == 0 && code == DW_DONE) return;
    EXPECT_EQ(code, DW_FAILED_PRECONDITION) << error_text(code, error);
    EXPECT_EQ(error.reason, DW_REASON_CALL_MISMATCH) << error.text;
  });
}

// Calls that follow each other alike are not read in full again.
TEST(ShmCalls, NewBuffersAndAFactorThatNobodyAskedFor) {
  run_threads(2, [](Member& member) {
    const float factor = 5;
    for (uint64_t seq = 1; seq <= 4; ++seq) {
      std::vector<float> in(20, static_cast<float>(seq)), out(20);
      dw_op op = all_reduce(in, out);
      op.seq = seq;
      op.scale = &factor;
      dw_error error = {};
      EXPECT_EQ(submit(member, op, &error), DW_DONE) << error.text;
      EXPECT_EQ(out, std::vector<float>(20, static_cast<float>(2 * seq)));
    }
  });
}

TEST(ShmDeadline, NamesTheRankThatDidNotCome) {
  run_threads(3, [](Member& member) {
    if (member.rank != 2) {
      std::vector<float> in(4, 1), out(4);
      dw_op op = all_reduce(in, out);
      op.deadline_ns = now_ns() + 50'000'000;
      if (member.rank == 1) {
        op.deadline_ns = 0;
        op.timeout_ns = 50'000'000;
      }
      const Clock::time_point begun = Clock::now();
      dw_error error = {};
      const int32_t code = submit(member, op, &error);
      EXPECT_EQ(code, DW_DEADLINE_EXCEEDED) << error_text(code, error);
      EXPECT_EQ(error.reason, DW_REASON_TIMED_OUT);
      EXPECT_EQ(error.peer, 2) << error.text;
      EXPECT_GE(Clock::now() - begun, std::chrono::milliseconds(49));
      EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
    }
    member.meeting.meet();
  });
}

// The sender waits until its limit while the message lies in its memory, which
// is then used for something else.
TEST(ShmDeadline, WhatWasLentIsNotReadAfterwards) {
  std::atomic<bool> is_used_again{false};
  run_threads(2, [&](Member& member) {
    std::vector<float> values(64 << 10, 1);
    dw_op op = {};
    op.struct_size = sizeof op;
    op.flags = DW_FLAG_CALLER_WAITS;
    op.peer = 1 - member.rank;
    dw_error error = {};
    if (member.rank == 0) {
      op.kind = DW_OP_SEND;
      op.in = view(values);
      op.timeout_ns = 30'000'000;
      EXPECT_EQ(submit(member, op, &error), DW_DEADLINE_EXCEEDED);
      std::fill(values.begin(), values.end(), 2.f);
      is_used_again = true;
      member.meeting.meet();
    } else {
      while (!is_used_again) std::this_thread::yield();
      op.kind = DW_OP_RECV;
      op.out = view(values);
      op.timeout_ns = 10'000'000'000;
      EXPECT_EQ(submit(member, op, &error), DW_UNAVAILABLE);
      EXPECT_EQ(error.peer, 0) << error.text;
      member.meeting.meet();
    }
  });
}

TEST(ShmDeadline, EndsAReceive) {
  run_threads(2, [](Member& member) {
    std::vector<float> out(4);
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_RECV;
    op.flags = DW_FLAG_CALLER_WAITS;
    op.peer = 1 - member.rank;
    op.out = view(out);
    op.timeout_ns = 30'000'000;
    dw_error error = {};
    const int32_t code = submit(member, op, &error);
    EXPECT_EQ(code, DW_DEADLINE_EXCEEDED) << error_text(code, error);
    EXPECT_EQ(error.peer, 1 - member.rank) << error.text;
  });
}

TEST(ShmAbort, OfAPeerEndsWhatWaitsForIt) {
  run_threads(3, [](Member& member) {
    if (member.rank == 1) {
      const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};
      member.api.comm_abort(member.comm, &why);
      return;
    }
    std::vector<float> in(4, 1), out(4);
    dw_error error = {};
    const int32_t code = submit(member, all_reduce(in, out), &error);
    EXPECT_EQ(code, DW_UNAVAILABLE) << error_text(code, error);
    EXPECT_EQ(error.reason, DW_REASON_PEER_LOST);
    EXPECT_EQ(error.peer, 1) << error.text;
  });
}

size_t entries(const char* folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder),
                    std::filesystem::directory_iterator()));
}

// Whether this process maps a file whose path begins so.
bool maps_file(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(" " + path) != std::string::npos) return true;
  return false;
}

// Neither descriptors nor threads stay, and nothing has a name: what a killed
// process held is gone with it.
TEST(ShmRemains, NothingOfACommunicator) {
  const auto use = [] {
    run_threads(3, [](Member& member) {
      std::vector<float> in(100000, 1), out(100000);
      dw_error error = {};
      EXPECT_EQ(submit(member, all_reduce(in, out), &error), DW_DONE)
          << error.text;
      EXPECT_EQ(out.back(), 3);
      EXPECT_TRUE(maps_file("/memfd:"));
      EXPECT_FALSE(maps_file("/dev/shm/"));
    });
  };
  use();  // allocates everything that the libraries keep
  const size_t descriptors = entries("/proc/self/fd");
  const size_t threads = entries("/proc/self/task");
  for (int i = 0; i < 10; ++i) use();
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_LE(entries("/proc/self/task"), threads);
}

}  // namespace
}  // namespace distwrap::conformance
