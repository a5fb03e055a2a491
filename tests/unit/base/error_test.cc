#include "base/error.h"

#include "distwrap/abi/codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace distwrap::base {
namespace {

using ::testing::HasSubstr;

ErrorInfo full() {
  return {.reason = Reason::kTimedOut,
          .what = "not everybody entered",
          .op = "all_reduce",
          .group = "dp",
          .seq = 4182,
          .my_rank = 1,
          .group_size = 8,
          .ranks = {7, 3, 4, 5},
          .elapsed = absl::Milliseconds(1234),
          .deadline = absl::Seconds(1),
          .setting = "DISTWRAP_TIMEOUT",
          .expected = "f32 x 8",
          .actual = "f32 x 9",
          .cause = "socket closed",
          .next_step = "look at rank 3"};
}

TEST(Error, TextHasEveryPart) {
  const absl::Status status = make_error(full());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(
      status.message(),
      "all_reduce #4182 on \"dp\" (rank 1 of 8): kTimedOut: not everybody "
      "entered; ranks 3-5, 7; after 1.234s (limit 1s: DISTWRAP_TIMEOUT); "
      "expected f32 x 8, got f32 x 9; cause: socket closed. Next: look at rank "
      "3, page DW-0060");
}

TEST(Error, ALimitThatIsNoTimeNamesItsSetting) {
  EXPECT_THAT(std::string(make_error({.reason = Reason::kObjectDecode,
                                      .what = "too large",
                                      .setting = "DISTWRAP_OBJECT_MAX_BYTES"})
                              .message()),
              HasSubstr("too large; limit: DISTWRAP_OBJECT_MAX_BYTES. Next: "));
}

TEST(Error, IsOneLineWhateverItsParts) {
  EXPECT_THAT(std::string(make_error({.reason = Reason::kBackendFailed,
                                      .what = "it failed",
                                      .expected = "a\nb",
                                      .cause = "line 1\nline\t2\x1b[1m",
                                      .next_step = "read\nthis"})
                              .message()),
              "kBackendFailed: it failed; expected a, b; cause: line 1, line "
              "2 [1m. Next: read, this, page DW-0070");
}

// Every reason has advice, and a page of its own for ever.
TEST(Error, EveryReasonHasAdviceAndAPage) {
  std::set<std::string> advice, pages;
#define DW_REASON(value, name, enumerator, code, python, text)              \
  EXPECT_TRUE(                                                              \
      advice.insert(std::string(reason_advice(Reason::enumerator))).second) \
      << #enumerator;                                                       \
  EXPECT_TRUE(pages.insert(error_page(Reason::enumerator)).second)          \
      << #enumerator;
#include "distwrap/abi/reasons.def"
  EXPECT_EQ(advice.count(""), 0u);
  EXPECT_EQ(reason_advice(static_cast<Reason>(9999)), "");
  EXPECT_EQ(error_page(Reason::kPeerLost), "DW-0062");
  const absl::Status bare = make_error({.reason = Reason::kPeerLost});
  EXPECT_EQ(error_info(bare)->next_step, reason_advice(Reason::kPeerLost));
}

TEST(Error, ACauseHasNoNextStep) {
  EXPECT_EQ(cause_text(make_error({.reason = Reason::kAborted, .what = "x"})),
            "kAborted: x");
  EXPECT_EQ(cause_text(absl::InternalError("foreign")), "foreign");
}

TEST(Error, UnknownPartsAreLeftOut) {
  const absl::Status status =
      make_error({.reason = Reason::kInvalidArgument, .what = "count is -1"});
  EXPECT_EQ(
      status.message(),
      "kInvalidArgument: count is -1. Next: correct the argument that the "
      "message names; nothing was sent, page DW-0001");
}

TEST(Error, InfoSurvivesTheStatus) {
  const std::optional<ErrorInfo> info = error_info(make_error(full()));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, Reason::kTimedOut);
  EXPECT_EQ(info->what, "not everybody entered");
  EXPECT_EQ(info->op, "all_reduce");
  EXPECT_EQ(info->group, "dp");
  EXPECT_EQ(info->seq, 4182u);
  EXPECT_EQ(info->my_rank, 1);
  EXPECT_EQ(info->group_size, 8);
  EXPECT_EQ(info->ranks, (std::vector<int>{7, 3, 4, 5}));
  EXPECT_EQ(info->elapsed, absl::Milliseconds(1234));
  EXPECT_EQ(info->deadline, absl::Seconds(1));
  EXPECT_EQ(info->expected, "f32 x 8");
  EXPECT_EQ(info->actual, "f32 x 9");
  EXPECT_EQ(info->cause, "socket closed");
  EXPECT_EQ(info->next_step, "look at rank 3");
  EXPECT_EQ(info->setting, "DISTWRAP_TIMEOUT");
}

// A missing rank, in each of its states.
RankSeen seen(RankSeen::Doing doing) {
  return {.rank = 3,
          .global_rank = 11,
          .host = "hosta",
          .pid = 4711,
          .doing = doing,
          .call = "barrier",
          .group = "dp",
          .seq = 811,
          .label = "step",
          .since = absl::Milliseconds(29'400)};
}

TEST(Error, SaysWhatMissingRanksWereDoing) {
  using Doing = RankSeen::Doing;
  const std::string who = "rank 3 (process 4711 on hosta) ";
  EXPECT_EQ(seen_text(seen(Doing::kInside), "dp"),
            who + "is in barrier #811 [step] for 29s");
  EXPECT_EQ(seen_text(seen(Doing::kInside), "tp"),
            who + "is in barrier #811 [step] on \"dp\" for 29s");
  EXPECT_EQ(seen_text(seen(Doing::kDone), "dp"),
            who + "has come out of barrier #811 [step] 29s ago");
  EXPECT_EQ(seen_text(seen(Doing::kNothing), "dp"),
            who + "has made no call on the group");
  EXPECT_EQ(seen_text(seen(Doing::kLeft), "dp"), who + "has left the group");
  RankSeen stopped = seen(Doing::kInside);
  stopped.silent = absl::Milliseconds(2345);
  EXPECT_EQ(seen_text(stopped, "dp"),
            who + "is in barrier #811 [step] for 29s and has not run for 2.3s");
  ErrorInfo info = full();
  info.seen.assign(7, seen(Doing::kLeft));
  EXPECT_THAT(std::string(make_error(info).message()),
              HasSubstr("; ranks 3-5, 7; rank 3 (process 4711 on hosta) has "
                        "left the group; "));
  EXPECT_THAT(std::string(make_error(info).message()),
              HasSubstr(" left the group; 3 more; after 1.234s"));
  const std::optional<ErrorInfo> read = error_info(make_error(info));
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->seen.size(), 7u);
  const RankSeen& one = read->seen[6];
  EXPECT_EQ(one.rank, 3);
  EXPECT_EQ(one.global_rank, 11);
  EXPECT_EQ(one.host, "hosta");
  EXPECT_EQ(one.pid, 4711);
  EXPECT_EQ(one.doing, Doing::kLeft);
  EXPECT_EQ(one.call, "barrier");
  EXPECT_EQ(one.group, "dp");
  EXPECT_EQ(one.seq, 811u);
  EXPECT_EQ(one.label, "step");
  EXPECT_EQ(one.since, absl::Milliseconds(29'400));
}

TEST(Error, BytesThatAreNoneGiveNone) {
  ErrorInfo info = full();
  info.seen.push_back(seen(RankSeen::Doing::kInside));
  const std::string good = encode_error(info);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_error(good.substr(0, size)).has_value()) << size;
  for (size_t at = 0; at < good.size(); ++at)
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string bad = good;
      bad[at] = byte;
      decode_error(bad);  // any result is good
    }
}

TEST(Error, ForeignStatusHasNoInfo) {
  EXPECT_FALSE(error_info(absl::OkStatus()).has_value());
  EXPECT_FALSE(error_info(absl::InternalError("x")).has_value());
  EXPECT_EQ(error_reason(absl::InternalError("x")), Reason::kNone);
}

TEST(Error, AmendKeepsTheRest) {
  const absl::Status status =
      amend_error(make_error(full()), [](ErrorInfo& i) { i.op = "barrier"; });
  EXPECT_THAT(std::string(status.message()), HasSubstr("barrier #4182"));
  EXPECT_EQ(error_info(status)->next_step, "look at rank 3");
}

TEST(Error, EveryReasonHasNameAndCode) {
  int reasons = 0;
#define DW_REASON(value, name, enumerator, code, python, text)        \
  EXPECT_EQ(reason_name(Reason::enumerator), #enumerator);            \
  EXPECT_EQ(reason_code(Reason::enumerator), code_of_abi(DW_##code)); \
  ++reasons;
#include "distwrap/abi/reasons.def"
  EXPECT_GT(reasons, 20);
  EXPECT_EQ(reason_name(static_cast<Reason>(9999)), "kNone");
}

TEST(Error, RankList) {
  EXPECT_EQ(rank_list({}), "");
  EXPECT_EQ(rank_list({2}), "2");
  EXPECT_EQ(rank_list({3, 2}), "2, 3");
  EXPECT_EQ(rank_list({0, 1, 2, 3, 7}), "0-3, 7");
}

TEST(Error, AbiCodes) {
  EXPECT_EQ(code_of_abi(DW_OK), absl::StatusCode::kOk);
  EXPECT_EQ(code_of_abi(DW_INCOMPATIBLE),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code_of_abi(DW_AGAIN), absl::StatusCode::kUnknown);
  EXPECT_EQ(code_of_abi(99), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace distwrap::base
