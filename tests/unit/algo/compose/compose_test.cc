// Operations in flight together, the moved data, and the reported completions.
#include "calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace distwrap::conformance {
namespace {

class ComposeTest : public testing::TestWithParam<const dw_backend_api& (*)()> {
};
INSTANTIATE_TEST_SUITE_P(Styles, ComposeTest,
                         testing::Values(kMessages, kAsync, kPolled));

// Asynchronous and waiting operations of both kinds, in the same order on all
// ranks, with messages in between, on which their peers depend.
TEST_P(ComposeTest, EverythingMixed) {
  on_ranks(GetParam()(), 3, [](Member& member) {
    const int next = (member.rank + 1) % 3, before = (member.rank + 2) % 3;
    for (int turn = 0; turn < 20; ++turn) {
      // In every second turn, more than one round of whole inputs.
      const size_t n = turn % 2 == 0 ? 5 : 3000;
      std::vector<int32_t> one(n, member.rank + turn), sum(n), all(3 * n);
      std::vector<int32_t> sum2(n), all2(3 * n), out(n, member.rank), in(n);
      std::vector<int32_t> late(1, turn), early(1);
      // The receive is posted before its send, which comes after the calls.
      auto open = start(member, message(DW_OP_RECV, before, 9, early));
      auto a = start(member, collective(member, DW_OP_ALL_REDUCE, one, sum));
      auto b = start(member, collective(member, DW_OP_ALL_GATHER, one, all));
      if (member.rank == 0) {
        call_well(member, message(DW_OP_RECV, before, 1, in));
        call_well(member, message(DW_OP_SEND, next, 1, out));
      } else {
        call_well(member, message(DW_OP_SEND, next, 1, out));
        call_well(member, message(DW_OP_RECV, before, 1, in));
      }
      call_well(member, collective(member, DW_OP_ALL_REDUCE, one, sum2));
      call_well(member, barrier(member));
      auto c = start(member, collective(member, DW_OP_ALL_GATHER, one, all2));
      auto sent = start(member, message(DW_OP_SEND, next, 9, late));
      for (Started* work : {c.get(), open.get(), b.get(), a.get(), sent.get()})
        finish_well(member, *work);
      const std::vector<int32_t> want(n, 3 + 3 * turn);
      if (sum != want || sum2 != want) member.find("a wrong sum");
      if (in != std::vector<int32_t>(n, before)) member.find("a wrong message");
      if (early[0] != turn) member.find("a wrong open receive");
      for (size_t i = 0; i < 3 * n; ++i)
        if (all[i] != static_cast<int32_t>(i / n) + turn || all2[i] != all[i])
          return member.find("a wrong gather");
    }
  });
}

// A message that its sender sends before it joins the collective that the
// receiver has already started.
TEST_P(ComposeTest, MessagesPassCollectivesThatWait) {
  on_ranks(GetParam()(), 2, [](Member& member) {
    std::vector<int32_t> one(2000, 1), sum(2000), word(3, 7);
    const dw_op op = collective(member, DW_OP_ALL_REDUCE, one, sum);
    if (member.rank == 0) {
      auto work = start(member, op);
      std::vector<int32_t> got(3);
      call_well(member, message(DW_OP_RECV, 1, 0, got));
      if (got != word) member.find("a wrong message");
      finish_well(member, *work);
    } else {
      call_well(member, message(DW_OP_SEND, 0, 0, word));
      call_well(member, op);
    }
    if (sum != std::vector<int32_t>(2000, 2)) member.find("a wrong sum");
  });
}

TEST(ComposeMessagesTest, ReduceScatterMovesNoMoreThanItMust) {
  const uint64_t before = fakes::bytes_sent();
  on_ranks(kMessages(), 4, [](Member& member) {
    std::vector<int32_t> in(4 * 1000, member.rank), out(1000);
    call_well(member, collective(member, DW_OP_REDUCE_SCATTER, in, out));
    if (out != std::vector<int32_t>(1000, 6)) member.find("a wrong sum");
  });
  EXPECT_EQ(fakes::bytes_sent() - before, 4u * 3u * 1000u * 4u);
}

TEST(ComposeMessagesTest, AllReduceMovesTwiceThat) {
  const uint64_t before = fakes::bytes_sent();
  on_ranks(kMessages(), 4, [](Member& member) {
    std::vector<int32_t> in(4000, member.rank), out(4000);
    call_well(member, collective(member, DW_OP_ALL_REDUCE, in, out));
    if (out != std::vector<int32_t>(4000, 6)) member.find("a wrong sum");
  });
  EXPECT_EQ(fakes::bytes_sent() - before, 2u * 4u * 3u * 1000u * 4u);
}

TEST(ComposeMessagesTest, AFailureElsewhereIsToldAsItIs) {
  on_ranks(kMessages(), 3, [](Member& member) {
    const dw_op op = barrier(member);
    if (member.rank == 1) {
      const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "test"};
      member.api.comm_abort(member.comm, &why);
    }
    dw_error error = {};
    const int32_t code = call(member, op, &error);
    if (code != DW_ABORTED || error.reason != DW_REASON_ABORTED ||
        (member.rank != 1 && error.peer != 1))
      member.find(error_text(code, error));
  });
}

// Operations in the worker's queue end as well, once each.
TEST(ComposeMessagesTest, AnAbortEndsWhatHasNotBegun) {
  on_ranks(kMessages(), 2, [](Member& member) {
    if (member.rank == 1) return;
    std::vector<int32_t> one(2000, 1), own(1);
    std::vector<std::vector<int32_t>> sums(50, std::vector<int32_t>(2000));
    std::vector<std::unique_ptr<Started>> works;
    for (std::vector<int32_t>& sum : sums)
      works.push_back(
          start(member, collective(member, DW_OP_ALL_REDUCE, one, sum)));
    works.push_back(start(member, message(DW_OP_RECV, 0, 3, own)));
    const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "test"};
    member.api.comm_abort(member.comm, &why);
    for (const auto& work : works) {
      if (finish(member, *work) != DW_ABORTED) member.find("not aborted");
      if (work->work.completions() != 1) member.find("not completed once");
    }
    dw_error error = {};
    if (call(member, barrier(member), &error) != DW_ABORTED)
      member.find("a call after an abort");
  });
}

// Every rank has another order of the items.
TEST_P(ComposeTest, ASetWaitsForNothingInItself) {
  on_ranks(GetParam()(), 3, [](Member& member) {
    const auto n = static_cast<size_t>(member.size);
    std::vector<std::vector<int32_t>> in(n), out(n);
    std::vector<int32_t> one(1, 1), sum(1);
    std::vector<dw_op> ops = {collective(member, DW_OP_ALL_REDUCE, one, sum),
                              barrier(member)};
    for (size_t r = 0; r < n; ++r) {
      out[r].assign(2000, member.rank * 10 + static_cast<int>(r));
      in[r].assign(2000, -1);
      const int peer = static_cast<int>(r);
      ops.insert(ops.begin() + member.rank,
                 message(DW_OP_SEND, peer, 4, out[r]));
      ops.push_back(message(DW_OP_RECV, peer, 4, in[r]));
    }
    dw_error error = {};
    const int32_t code = submit_set(member, ops, &error);
    if (code != DW_DONE) member.find(error_text(code, error));
    for (size_t r = 0; r < n; ++r)
      if (in[r] !=
          std::vector<int32_t>(2000, static_cast<int>(r) * 10 + member.rank))
        member.find("a wrong message");
    if (sum[0] != 3) member.find("a wrong sum");
  });
}

}  // namespace
}  // namespace distwrap::conformance
