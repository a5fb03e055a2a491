// Pieces of any size, anywhere: v forms, places, lists.
#include "exercise.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace distwrap::gloo_test {
namespace {

constexpr Lists kLists[] = {Lists::kEqual, Lists::kPacked, Lists::kGaps,
                            Lists::kParts};

void exercise(Member& member, const Exercise::Plan& plan) {
  for (const bool caller_waits : {true, false}) {
    Exercise one(member, plan);
    const std::string failed =
        run(member, one.op(member.next_seq++), caller_waits);
    const std::string wrong = failed.empty() ? one.wrong() : failed;
    if (!wrong.empty()) member.find(name_of(plan) + ": " + wrong);
  }
}

void exercise_all(bool in_place) {
  for (int size = 1; size <= 4; ++size)
    on_ranks(size, [&](Member& member) {
      for (const uint16_t kind : collectives())
        for (const Lists lists : kLists)
          for (int root = 0; root < (has_root(kind) ? size : 1); ++root) {
            if (!has_lists(kind) && lists != Lists::kEqual) continue;
            if (in_place && kind == DW_OP_ALL_TO_ALL) continue;
            exercise(member, {kind, lists, root, root + 1, in_place});
          }
    });
}

TEST(GlooPiecesTest, EveryPieceArrivesWhereItBelongs) { exercise_all(false); }

TEST(GlooPiecesTest, InPlaceTheOwnPieceIsTheOwnBuffer) { exercise_all(true); }

// Some pieces have one segment, some many, some none; so do blocks of
// reductions.
TEST(GlooPiecesTest, LargePiecesArriveInSegments) {
  on_ranks(3, [](Member& member) {
    for (const uint16_t kind : collectives())
      exercise(member, {kind, has_lists(kind) ? Lists::kGaps : Lists::kEqual, 1,
                        7, false, 200003});
  });
}

// Counts that differ between ranks 0 and 1: rank 0 expects one element more
// from, or for, rank 1.
void expect_no_meeting(uint16_t kind) {
  on_ranks(2, [&](Member& member) {
    const int64_t extra = member.rank == 0 ? 1 : 0;
    std::vector<int32_t> in(20, 1), out(20, -1);
    std::vector<int64_t> own = {2, 2}, other = {2, 2};
    (kind == DW_OP_REDUCE_SCATTER ? own : other)[1] += extra;
    dw_op op = op_of(kind, 1);
    op.flags = DW_FLAG_PER_RANK;
    op.in = buffer_of(in);
    op.out = buffer_of(out);
    op.in.count = kind == DW_OP_ALL_GATHER ? 2 : own[0] + own[1];
    op.out.count = kind == DW_OP_REDUCE_SCATTER ? 2 : other[0] + other[1];
    if (kind != DW_OP_ALL_GATHER) op.in.counts = own.data();
    if (kind != DW_OP_REDUCE_SCATTER) op.out.counts = other.data();
    dw_work work;
    dw_error error = {};
    ASSERT_EQ(gloo().submit(member.comm, &op, &work, &error), DW_OK)
        << error.text;
    // Any match has happened by now, and would be noticed by a completion below
    // or by Gloo's end.
    EXPECT_FALSE(work.wait(std::chrono::milliseconds(30)));
    member.meeting.meet();
    const dw_error why = {DW_ABORTED, DW_REASON_ABORTED, -1, 0, 0, "a test"};
    gloo().comm_abort(member.comm, &why);
    ASSERT_TRUE(work.wait(std::chrono::seconds(20)));
    EXPECT_GT(work.code(), DW_OK);
    // A rank that gets the expected size may or may not have completed; a rank
    // that waits for more than is sent must have received nothing.
    if (member.rank == 0 && kind != DW_OP_REDUCE_SCATTER) {
      EXPECT_EQ(out[2], -1);
      EXPECT_EQ(out[3], -1);
    }
  });
}

TEST(GlooPiecesTest, CountsThatDifferNeverMeet) {
  expect_no_meeting(DW_OP_ALL_GATHER);
  expect_no_meeting(DW_OP_REDUCE_SCATTER);
  expect_no_meeting(DW_OP_ALL_TO_ALL);
}

TEST(GlooPiecesTest, BadListsAreRefused) {
  on_ranks(2, [](Member& member) {
    std::vector<int32_t> in(2), out(8, -1);
    std::vector<int64_t> counts = {2, 2}, places = {0, 2};
    if (member.rank != 0) return;
    dw_op op = op_of(DW_OP_ALL_GATHER, 1);
    op.flags = DW_FLAG_PER_RANK | DW_FLAG_CALLER_WAITS;
    op.in = buffer_of(in);
    op.out = buffer_of(out);
    op.out.count = 4;
    op.out.counts = counts.data();
    op.out.displs = places.data();
    const auto refused = [&](const std::string& what, int32_t want) {
      dw_error error = {};
      EXPECT_EQ(gloo().query(member.comm, &op, &error), want) << what;
      EXPECT_EQ(gloo().submit(member.comm, &op, nullptr, nullptr), want)
          << what;
    };
    dw_error error = {};
    EXPECT_EQ(gloo().query(member.comm, &op, &error), DW_OK) << error.text;
    op.flags = DW_FLAG_CALLER_WAITS;
    refused("no flag", DW_UNIMPLEMENTED);
    op.flags |= DW_FLAG_PER_RANK;
    op.out.count = 5;
    refused("another sum", DW_INVALID_ARGUMENT);
    op.out.count = 4;
    counts = {5, -1};
    refused("a negative count", DW_INVALID_ARGUMENT);
    counts = {1, 3};
    refused("an own piece of another size", DW_INVALID_ARGUMENT);
    counts = {2, 2};
    places = {-1, 2};
    refused("a negative place", DW_INVALID_ARGUMENT);
    counts = {INT64_MAX, 3};
    refused("counts beyond all memory", DW_INVALID_ARGUMENT);
    op.out.counts = nullptr;
    op.out.displs = nullptr;
    op.out.count = 3;
    refused("no equal parts", DW_INVALID_ARGUMENT);
    EXPECT_EQ(out, std::vector<int32_t>(8, -1));
  });
}

}  // namespace
}  // namespace distwrap::gloo_test
