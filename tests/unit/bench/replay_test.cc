// Scripts for replay: read, linked, scaled, refused.
#include "bench/replay/play.h"
#include "bench/replay/read.h"
#include "distwrap/abi/types.h"
#include "recordings/recording.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace distwrap::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTrace[] = R"([
  {"comms": "init", "pg_id": 1, "global_ranks": [1, 0], "world_size": 2},
  {"comms": "all_reduce", "req": 0, "in_msg_size": 8, "out_msg_size": 8,
   "dtype": "Float", "world_size": 2},
  {"compute": "gemm", "mm_dim": 4, "dtype": "float"},
  {"comms": "all_gather_base", "req": 1, "in_msg_size": 2, "out_msg_size": 4,
   "dtype": "Long", "pg_id": 1, "world_size": 2},
  {"comms": "wait", "req": 0},
  {"comms": "all_to_allv", "in_msg_size": 3, "out_msg_size": 3,
   "in_split": [%IN%], "out_split": [%OUT%], "dtype": "Half"},
  {"comms": "broadcast", "root": 1, "in_msg_size": 5, "out_msg_size": 5,
   "dtype": "Int"},
  {"comms": "%MSG%", "in_msg_size": 6, "out_msg_size": 6, "dtype": "Double",
   "src_rank": 0, "dst_rank": 1, "use_batch": false},
  {"comms": "barrier"}
])";

std::string replaced(std::string text, const std::string& what,
                     const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what))
    text.replace(at, what.size(), by);
  return text;
}

std::vector<std::string> traces() {
  std::vector<std::string> texts;
  for (const bool first : {true, false}) {
    std::string text = replaced(kTrace, "%IN%", first ? "1, 2" : "1, 2");
    text = replaced(text, "%OUT%", first ? "1, 1" : "2, 2");
    text = replaced(text, "%MSG%", first ? "isend" : "irecv");
    texts.push_back(replaced(text, first ? "\"out_msg_size\": 3" : "@",
                             "\"out_msg_size\": 2"));
    texts.back() = replaced(texts.back(), first ? "@" : "\"out_msg_size\": 3",
                            "\"out_msg_size\": 4");
  }
  return texts;
}

std::vector<std::string> calls_of(const ReplayScript& script, size_t rank) {
  std::vector<std::string> calls;
  for (const ReplayCall& call : script.ranks[rank])
    calls.push_back(absl::StrCat(describe(script, call),
                                 call.async ? " begun" : "", " after ",
                                 call.awaits.size()));
  return calls;
}

TEST(Replay, ReadsTracesOfParam) {
  auto script = script_of_param(traces());
  ASSERT_TRUE(script.ok()) << script.status();
  const absl::Status linked = link(&*script, false);
  ASSERT_TRUE(linked.ok()) << linked;
  EXPECT_THAT(calls_of(*script, 0),
              ElementsAre("all_reduce f32 x 8 sum on 'world' begun after 0",
                          "all_gather i64 x 4 on 'pg 1' after 0",
                          "all_to_all f16 x 3 on 'world' after 1",
                          "broadcast i32 x 5 root 1 on 'world' after 0",
                          "send f64 x 6 to 1 tag 0 on 'world' after 0",
                          "barrier on 'world' after 0"));
  EXPECT_THAT(script->groups[1].ranks, ElementsAre(1, 0));
  EXPECT_EQ(script->ranks[0][3].in, 0);
  EXPECT_EQ(script->ranks[1][3].in, 5);
  EXPECT_THAT(script->notes, ElementsAre("2 compute entries are left out"));
  EXPECT_THAT(show_plan(*script, "gloo"), HasSubstr("nothing was sent"));
  EXPECT_THAT(replay_json(*script, nullptr, "gloo", 0),
              HasSubstr("\"dry_run\""));
}

// One file for all ranks, whose number is in the file.
TEST(Replay, ATraceMayBeShared) {
  auto script = script_of_param(
      {R"([{"comms": "all_reduce", "in_msg_size": 4, "out_msg_size": 4,
            "dtype": "float", "world_size": 3}])"});
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_EQ(script->size(), 3);
  EXPECT_TRUE(link(&*script, false).ok());
}

TEST(Replay, WhatDoesNotFitIsNamed) {
  const auto expect = [](std::vector<std::string> texts, const char* why) {
    auto script = script_of_param(texts);
    const absl::Status status =
        script.ok() ? link(&*script, false) : script.status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  };
  const std::string reduce =
      R"({"comms": "all_reduce", "in_msg_size": 4, "out_msg_size": 4,
          "dtype": "float"})";
  expect({"[" + reduce + "]", "[]"},
         "rank 1 made 0 collectives on 'world', others 1");
  expect({"[" + reduce + "]", "[" + replaced(reduce, "4", "5") + "]"},
         "the sizes of the ranks do not fit");
  expect({"[" + reduce + "]", R"([{"comms": "barrier"}])"},
         "ranks make different calls at one time");
  expect({"{}"}, "not a JSON array");
  expect({"[3]"}, "entry 0 is not an object");
  expect({"[{}]"}, "neither comms nor compute");
  expect({R"([{"comms": "teleport"}])"}, "no known kind: teleport");
  expect({R"([{"comms": "all_reduce"}])"}, "no known dtype");
  expect({R"([{"comms": "all_reduce", "dtype": "int"}])"}, "no in_msg_size");
  expect({R"([{"comms": "send", "dtype": "int", "in_msg_size": 1,
               "out_msg_size": 1, "dst_rank": 7}])"},
         "names rank 7, which is not in its group");
  expect({R"([{"comms": "all_reduce", "in_msg_size": 99999999999,
               "out_msg_size": 99999999999, "dtype": "double"}])"},
         "larger than 4 GiB");
  expect({R"([{"comms": "send", "dtype": "int", "in_msg_size": 1,
               "out_msg_size": 1, "dst_rank": 1}])",
          "[]"},
         "rank 0 sends rank 1 1 messages with tag 0 on 'world', which "
         "receives 0");
  expect({R"([{"comms": "barrier", "world_size": 5000}])"},
         "1 to 128 can be replayed");
}

std::string recording(int rank, int64_t overwritten, const std::string& ops) {
  return absl::StrCat(
      R"({"format": "distwrap recording", "version": 1, "job": "j", "rank": )",
      rank, R"(, "world_size": 2, "overwritten": )", overwritten,
      R"(, "groups": [{"group": 0, "uid": "aa", "name": "world", "rank": )",
      rank, R"(, "size": 2, "ranks": [0, 1]}], "operations": [)", ops, "]}");
}

std::string reduction(int seq, int64_t count, const char* more = "") {
  return absl::StrCat(
      R"({"number": )", seq, R"(, "group": 0, "op": "all_reduce", "seq": )",
      seq, R"(, "dtype": "f32", "reduce": "sum", "in": )", count,
      R"(, "out": )", count, R"(, "submitted_ns": )", 10 * seq,
      R"(, "ended_ns": )", 10 * seq + 5, R"(, "state": "done")", more, "}");
}

absl::StatusOr<ReplayScript> script_of_texts(
    const std::vector<std::string>& texts) {
  cli::JobRecording job;
  for (const std::string& text : texts) {
    auto one = cli::parse_recording(text);
    if (!one.ok()) return one.status();
    job.ranks.push_back(*std::move(one));
  }
  return script_of(job);
}

TEST(Replay, ReadsRecordings) {
  const std::string ops = reduction(1, 4) + "," +
                          reduction(2, 8, R"(, "async": true)") + "," +
                          reduction(3, 16);
  const auto script =
      script_of_texts({recording(0, 0, ops), recording(1, 0, ops)});
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(calls_of(*script, 1),
              ElementsAre("all_reduce f32 x 4 sum on 'world' after 0",
                          "all_reduce f32 x 8 sum on 'world' begun after 0",
                          "all_reduce f32 x 16 sum on 'world' after 1"));
  EXPECT_THAT(script->notes, ElementsAre());
}

TEST(Replay, AnOverwrittenBeginningIsLeftOut) {
  const auto script =
      script_of_texts({recording(0, 1, reduction(2, 4) + "," + reduction(3, 8)),
                       recording(1, 2, reduction(3, 8))});
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_THAT(calls_of(*script, 0),
              ElementsAre("all_reduce f32 x 8 sum on 'world' after 0"));
  ASSERT_EQ(script->notes.size(), 2u);
  EXPECT_THAT(script->notes[0], HasSubstr("overwritten"));
  EXPECT_THAT(script->notes[1], HasSubstr("1 calls"));
}

TEST(Replay, AMissingRankIsNamed) {
  EXPECT_THAT(
      std::string(script_of_texts({recording(1, 0, "")}).status().message()),
      HasSubstr("the recording of rank 0 is missing"));
}

ReplayScript script_of_kinds() {
  ReplayScript script{"test", {{"world", {0, 1}}}, {{}, {}}, {}};
  for (int rank = 0; rank < 2; ++rank) {
    const auto add = [&](uint16_t kind, int64_t in, int64_t out,
                         int peer = -1) {
      ReplayCall call;
      call.kind = kind;
      call.dtype = DType::kF32;
      call.in = in;
      call.out = out;
      call.peer = peer;
      script.ranks[static_cast<size_t>(rank)].push_back(call);
    };
    add(DW_OP_ALL_REDUCE, 6, 6);
    add(DW_OP_ALL_GATHER, 3, 6);
    add(DW_OP_REDUCE_SCATTER, 6, 3);
    add(DW_OP_ALL_TO_ALL, 8, 8);
    add(DW_OP_GATHER, 3, rank == 1 ? 6 : 0, 1);
    add(DW_OP_SEND, 5, 0, 1 - rank);
    add(DW_OP_RECV, 0, 5, 1 - rank);
  }
  return script;
}

TEST(Replay, Scales) {
  ReplayScript script = script_of_kinds();
  ASSERT_TRUE(link(&script, false).ok());
  const auto large = scaled(script, 5);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(large->size(), 5);
  EXPECT_EQ(large->groups[0].ranks.size(), 5u);
  const std::vector<ReplayCall>& calls = large->ranks[4];
  EXPECT_EQ(calls[0].in, 6);
  EXPECT_EQ(calls[1].out, 15);
  EXPECT_EQ(calls[2].in, 15);
  EXPECT_EQ(calls[3].in, 20);
  EXPECT_EQ(calls[4].peer, 4);  // the last rank stays the last
  EXPECT_EQ(calls[4].out, 15);
  EXPECT_EQ(large->ranks[0][4].out, 0);
  EXPECT_EQ(calls[5].peer, 0);  // a ring
  const auto same = scaled(script, 2);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(calls_of(*same, 0), calls_of(script, 0));
}

// By chance, one rank's send had ended before its next call, and the other's
// had not.
TEST(Replay, ScalesWhateverHadEndedByChance) {
  ReplayScript script = script_of_kinds();
  for (auto& rank : script.ranks) rank[5].async = true;
  script.ranks[1][6].awaits = {5};
  ASSERT_TRUE(link(&script, false).ok());
  const auto large = scaled(script, 3);
  ASSERT_TRUE(large.ok()) << large.status();
  for (const auto& rank : large->ranks)
    EXPECT_EQ(rank[6].awaits, script.ranks[0][6].awaits);
}

TEST(Replay, WhatDoesNotScaleIsNamed) {
  const auto why = [](ReplayScript script, int ranks) {
    EXPECT_TRUE(link(&script, false).ok());
    return std::string(scaled(script, ranks).status().message());
  };
  ReplayScript half = script_of_kinds();
  half.groups.push_back({"half", {1}});
  EXPECT_THAT(why(half, 4), HasSubstr("group 'half' is not of all ranks"));
  ReplayScript uneven = script_of_kinds();
  uneven.ranks[0][1].in = 2;
  uneven.ranks[1][1].in = 4;
  EXPECT_THAT(why(uneven, 4), HasSubstr("its pieces are uneven"));
  ReplayScript more = script_of_kinds();
  ReplayCall barrier;
  barrier.kind = DW_OP_BARRIER;
  for (auto& rank : more.ranks) rank.push_back(barrier);
  std::swap(more.ranks[0][5], more.ranks[0][6]);
  EXPECT_THAT(why(more, 4), HasSubstr("in another order"));
  EXPECT_THAT(why(script_of_kinds(), 1000), HasSubstr("1000 is not 1 to 128"));
}

// Damaged bytes are either refused or read, without other effects.
TEST(Replay, DamagedTextsDoNoHarm) {
  std::mt19937 random(20261122);
  const std::string good = traces()[0];
  const std::string rec =
      recording(0, 0, reduction(1, 4) + "," + reduction(2, 8));
  for (int i = 0; i < 3000; ++i) {
    for (const std::string& whole : {good, rec}) {
      std::string text = whole;
      for (int n = static_cast<int>(random() % 4); n >= 0; --n)
        text[random() % text.size()] =
            "0123456789-{}[],:\"eE.\\ \xff"[random() % 24];
      if (random() % 8 == 0) text.resize(random() % text.size());
      auto param = script_of_param({text, traces()[1]});
      if (param.ok()) link(&*param, i % 2 == 0).IgnoreError();
      script_of_texts({text, recording(1, 0, reduction(1, 4))})
          .status()
          .IgnoreError();
    }
  }
}

TEST(Replay, TimesGoThroughAFile) {
  const ReplayTimes times{
      12.5, {{"all_reduce", 4, 128, 3.5, 1.25}, {"send", 2, 16, 1, 0.5}}};
  const auto back = read_replay_times(write_times(times));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->total_us, 12.5);
  ASSERT_EQ(back->rows.size(), 2u);
  EXPECT_EQ(back->rows[1].op, "send");
  EXPECT_EQ(back->rows[0].slowest_us, 3.5);
  EXPECT_FALSE(read_replay_times("").ok());
  EXPECT_FALSE(read_replay_times("1\nsend 2\n").ok());
}

}  // namespace
}  // namespace distwrap::bench
