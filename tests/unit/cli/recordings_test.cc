#include "recordings/behind.h"
#include "recordings/recording.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace distwrap::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kEnd = 100'000'000'000;

// A call made a second after the previous one.
struct Call {
  const char* op = "all_reduce";
  int64_t seq = 0;
  bool ended = true;
  int64_t count = 256;
  const char* more = "";
  const char* state = "done";
};

std::string recording(int rank, int size, const std::vector<Call>& calls,
                      const std::string& job = "job") {
  std::string ranks, operations;
  for (int r = 0; r < size; ++r) absl::StrAppend(&ranks, r == 0 ? "" : ", ", r);
  int64_t at = kEnd - 10'000'000'000;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    absl::StrAppend(
        &operations, i == 0 ? "" : ",\n", R"( {"number": )", i + 1,
        R"(, "group": 0, "op": ")", call.op, "\"",
        call.seq > 0 ? absl::StrCat(R"(, "seq": )", call.seq) : "",
        R"(, "dtype": "f32", "in": )", call.count, R"(, "out": )", call.count,
        call.more, R"(, "submitted_ns": )", at, R"(, "started_ns": )", at,
        call.ended ? absl::StrCat(R"(, "ended_ns": )", at + 1000) : "",
        R"(, "state": ")", call.ended ? call.state : "running", "\"}");
    at += 1'000'000'000;
  }
  return absl::StrCat(
      R"({"format": "distwrap recording", "version": 1, "library": "0.1.0",)",
      R"( "job": ")", job, R"(", "rank": )", rank, R"(, "world_size": )", size,
      R"(, "host": "here", "pid": )", 100 + rank,
      R"(, "cause": "signal", "time_ns": )", kEnd, R"(, "overwritten": 0,)",
      R"("groups": [{"group": 0, "uid": "00ff", "name": "world", )",
      R"("backend": "gloo", "rank": )", rank, R"(, "size": )", size,
      R"(, "ranks": [)", ranks, R"(]}], "operations": [)", operations, "]}");
}

GroupPosition world_of(const std::vector<std::string>& texts) {
  JobRecording job;
  for (const std::string& text : texts) {
    auto parsed = parse_recording(text);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    job.ranks.push_back(*std::move(parsed));
  }
  std::vector<GroupPosition> groups = positions_of(job);
  EXPECT_EQ(groups.size(), 1u);
  return groups.front();
}

TEST(Recordings, NobodyIsBehind) {
  const GroupPosition world =
      world_of({recording(0, 2, {{.seq = 1}}), recording(1, 2, {{.seq = 1}})});
  EXPECT_THAT(world.findings, IsEmpty());
  ASSERT_EQ(world.ranks.size(), 2u);
  EXPECT_EQ(world.ranks[1].pid, 101);
  EXPECT_EQ(world.ranks[1].last->seq, 1);
}

TEST(Recordings, NamesWhoIsBehindAndInWhat) {
  const std::vector<Call> ahead = {
      {.seq = 1}, {.op = "broadcast", .seq = 2}, {.seq = 3, .ended = false}};
  const GroupPosition world =
      world_of({recording(0, 3, ahead), recording(1, 3, {{.seq = 1}}),
                recording(2, 3, ahead)});
  EXPECT_THAT(
      world.findings,
      ElementsAre("rank 1 is 2 behind: ranks 0, 2 have called all_reduce #3 "
                  "(f32 x 256), 8 s before the end; its last call was "
                  "all_reduce #1 (f32 x 256), done"));
  ASSERT_EQ(world.ranks[0].open.size(), 1u);
}

TEST(Recordings, NamesCallsThatDiffer) {
  const GroupPosition world = world_of(
      {recording(0, 2, {{.seq = 1}, {.seq = 2, .ended = false}}),
       recording(1, 2,
                 {{.seq = 1}, {.seq = 2, .ended = false, .count = 255}})});
  EXPECT_THAT(world.findings,
              ElementsAre("call #2 differs: rank 0 made all_reduce #2 (f32 x "
                          "256), rank 1 all_reduce #2 (f32 x 255)"));
}

TEST(Recordings, MissingRanksAndFailuresAreNamed) {
  const GroupPosition world = world_of({recording(
      0, 3,
      {{.seq = 1, .state = "kTimedOut"}, {.seq = 2, .state = "kAborted"}})});
  EXPECT_THAT(
      world.findings,
      ElementsAre("rank 0 failed in all_reduce #1 (f32 x 256): kTimedOut",
                  "no recording of ranks 1, 2"));
}

TEST(Recordings, WaitingMessagesNameTheirPeer) {
  const GroupPosition world = world_of(
      {recording(0, 2,
                 {{.op = "recv",
                   .ended = false,
                   .more = R"(, "peer": 1, "tag": 7, "label": "halo")"}}),
       recording(1, 2, {})});
  EXPECT_THAT(world.findings,
              ElementsAre("rank 0 waits in recv with tag 7 (f32 x 256, "
                          "'halo') for rank 1 since 10 s"));
}

TEST(Recordings, AreOrderedByNumbersWithinAGroupAndTimesBetween) {
  const auto parsed = parse_recording(R"({
    "format": "distwrap recording", "version": 1, "operations": [
      {"number": 1, "group": 0, "submitted_ns": 100},
      {"number": 2, "group": 0, "submitted_ns": 300},
      {"number": 3, "group": 0, "submitted_ns": 299},
      {"number": 17, "group": 1, "submitted_ns": 200},
      {"number": 18, "group": 1, "submitted_ns": 400}]})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<int64_t> numbers;
  for (const RecordedOp& op : parsed->operations) numbers.push_back(op.number);
  EXPECT_THAT(numbers, ::testing::ElementsAre(1, 17, 2, 3, 18));
}

TEST(Recordings, OtherFilesAreRefusedByName) {
  EXPECT_THAT(std::string(parse_recording("{").status().message()),
              HasSubstr("cut short"));
  EXPECT_THAT(std::string(parse_recording("[]").status().message()),
              HasSubstr("not a recording"));
  EXPECT_THAT(
      std::string(
          parse_recording(R"({"format": "distwrap recording", "version": 9})")
              .status()
              .message()),
      HasSubstr("version 9"));
  // Members of a wrong type count as missing.
  const auto odd = parse_recording(
      R"({"format": "distwrap recording", "version": 1, "rank": "x",
          "groups": [1, {"size": -5, "ranks": ["a"], "rank": 99}],
          "operations": [null, {"group": 7}]})");
  ASSERT_TRUE(odd.ok()) << odd.status();
  JobRecording job;
  job.ranks.push_back(*odd);
  EXPECT_EQ(positions_of(job).size(), 1u);
  EXPECT_THAT(to_text(job, positions_of(job)), HasSubstr("job"));
}

TEST(Recordings, AFolderHoldsTheNewestJob) {
  char name[] = "/tmp/recordings_test_XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const fs::path folder = name;
  EXPECT_FALSE(read_recordings(folder).ok());
  std::ofstream(folder / "rank-1.json") << recording(1, 2, {{.seq = 1}});
  std::ofstream(folder / "rank-0.json") << recording(0, 2, {{.seq = 1}});
  std::string old = recording(5, 8, {}, "old job");
  old.replace(old.find(absl::StrCat(kEnd)), 3, "099");
  std::ofstream(folder / "rank-5.json")
      << old.replace(old.find("\"time_ns\": 099"), 14, "\"time_ns\": 99");
  std::ofstream(folder / "rank-3.json") << "{\"format\"";
  std::ofstream(folder / "notes.txt") << "x";
  const auto job = read_recordings(folder);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->ranks.size(), 2u);
  EXPECT_EQ(job->ranks[0].rank, 0);
  EXPECT_THAT(job->left_out,
              ElementsAre(AllOf(HasSubstr("rank-3.json"), HasSubstr("cut")),
                          AllOf(HasSubstr("rank-5.json"), HasSubstr("old"))));
  EXPECT_THAT(to_text(*job, positions_of(*job)),
              AllOf(HasSubstr("2 of 2 ranks recorded"),
                    HasSubstr("no rank is behind"), HasSubstr("left out")));
  fs::remove_all(folder);
  EXPECT_FALSE(read_recordings(folder).ok());
}

// As when the folders of several hosts have been copied into one.
TEST(Recordings, FoldersInTheFolderBelongToIt) {
  char name[] = "/tmp/recordings_test_XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const fs::path folder = name;
  fs::create_directories(folder / "node0");
  fs::create_directories(folder / "node1" / "deeper");
  std::ofstream(folder / "node0" / "rank-0.json")
      << recording(0, 2, {{.seq = 1}});
  std::string older = recording(0, 2, {{.seq = 1}});
  const std::string end = absl::StrCat("\"time_ns\": ", kEnd);
  ASSERT_NE(older.find(end), std::string::npos);
  std::ofstream(folder / "rank-0.json")
      << older.replace(older.find(end), end.size(), "\"time_ns\": 99");
  std::ofstream(folder / "node1" / "deeper" / "rank-1.json")
      << recording(1, 2, {{.seq = 1}, {.seq = 2}});
  const auto job = read_recordings(folder);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->left_out,
              ElementsAre("rank-0.json: an earlier recording of the same "
                          "rank"));
  EXPECT_THAT(to_text(*job, positions_of(*job)),
              AllOf(HasSubstr("2 of 2 ranks recorded"),
                    HasSubstr("rank 0 is 1 behind")));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace distwrap::cli
