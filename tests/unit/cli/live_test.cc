// The output of `distwrap info --live` for a board; tests/ranks shows that jobs
// are found.
#include "comm/board/live.h"

#include "base/descriptor.h"
#include "bench/json.h"
#include "comm/board/far_memory.h"
#include "comm/board/host_memory.h"
#include "comm/board/seen_call.h"
#include "distwrap/status.h"
#include "live/jobs.h"
#include "live/view.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace distwrap::cli {
namespace {

using comm::LiveBoard;
using comm::LiveGroup;
using comm::LiveRank;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kNow = 100'000'000'000;

std::string runs(int64_t pid) { return pid == 13 ? "stopped" : "runs"; }

LiveGroup in(int32_t rank, uint64_t seq, int64_t for_s) {
  return {77,        "dp",  rank, 4, seq, seq, kNow - for_s * 1'000'000'000,
          "barrier", "step"};
}
LiveGroup after(int32_t rank, uint64_t seq) {
  return {77,
          "dp",
          rank,
          4,
          seq,
          0,
          kNow - 42'000'000'000,
          "all_reduce f32 x 8 sum",
          ""};
}

LiveBoard some() {
  using State = LiveRank::State;
  return {0xabc,
          8,
          {{4, 11, "here", State::kRuns, {in(0, 7, 31)}},
           {5, 12, "here", State::kEnded, {after(1, 6)}},
           {6, 13, "here", State::kRuns, {in(2, 7, 0)}},
           {}}};
}

TEST(Live, ShowsWhoIsBehind) {
  const LiveBoard board = some();
  const std::vector<LiveGroupView> groups = groups_of(board);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].waited, 7u);
  EXPECT_THAT(groups[0].behind, ElementsAre(1));
  EXPECT_EQ(groups[0].elsewhere, 1);
  EXPECT_FALSE(has_ended(board));
  EXPECT_EQ(to_text(board, kNow, runs),
            "job 0000000000000abc: 4 of 8 ranks on this host\n"
            "  rank  process  host  state\n"
            "  4     11       here  runs\n"
            "  5     12       here  ended\n"
            "  6     13       here  stopped\n"
            "  ?                    starting\n"
            "\n"
            "dp (4 ranks)\n"
            "  rank  process          collective                 since\n"
            "  0     11       in      barrier #7 [step]          31s\n"
            "  1     12       behind  all_reduce f32 x 8 sum #6  42s\n"
            "  2     13       in      barrier #7 [step]\n"
            "  => #7 waits for rank 1; 1 not seen\n");
  const std::string json = bench::json_text(to_json(board, kNow, runs));
  for (const char* part :
       {"\"job\": \"0000000000000abc\"", "\"state\": \"stopped\"",
        "\"behind\": [", "\"inside\": 7", "\"age_ns\": 31000000000",
        "\"not_seen\": 1"})
    EXPECT_THAT(json, HasSubstr(part));
}

TEST(Live, ShowsDirectCallsOfRanksThatGuard) {
  LiveBoard board = some();
  board.ranks[0].guard = 2;
  board.ranks[0].has_door = true;
  board.ranks[0].refused = 3;
  board.ranks[1].guard = 3;
  board.ranks[2].guard = 1;
  board.ranks[2].has_door = true;
  EXPECT_THAT(to_text(board, kNow, runs),
              HasSubstr("  rank  process  host  state     direct calls\n"
                        "  4     11       here  runs      block, 3 refused\n"
                        "  5     12       here  ended     require, no door\n"
                        "  6     13       here  stopped   warn\n"
                        "  ?                    starting\n"));
  const std::string json = bench::json_text(to_json(board, kNow, runs));
  for (const char* part :
       {"\"guard\": \"block\"", "\"door\": true", "\"refused\": 3"})
    EXPECT_THAT(json, HasSubstr(part));
}

// Two ranks of this host have heard of a rank of another one.
TEST(Live, ShowsWhatOtherHostsHaveTold) {
  LiveBoard board = some();
  board.ranks.pop_back();
  constexpr uint64_t kGroup = 77;
  for (const uint64_t last : std::vector<uint64_t>{5, 6, 5}) {
    const auto far = comm::FarMemory::make(0xabc, 8);
    ASSERT_NE(far, nullptr);
    comm::GroupFacts facts = {.rank = 3, .size = 4, .name = {'d', 'p'}};
    const comm::FarPage page = far->take(7, kGroup, facts);
    far->know(7, "there", 4711);
    page->last.store(last);
    page->moved_ns.store(kNow - 2'000'000'000);
    int fd = -1;
    for (const RunningJob& job : running_jobs())
      EXPECT_NE(job.board.job, 0xabc);
    for (int one = 3; one < 1000 && fd < 0; ++one) {
      char target[128] = {};
      if (readlink(absl::StrCat("/proc/self/fd/", one).c_str(), target,
                   sizeof target - 1) > 0 &&
          absl::StrContains(target, comm::FarMemory::kName))
        fd = one;
    }
    const auto told = LiveBoard::read(fd);
    ASSERT_TRUE(told.ok()) << told.status();
    board.add_told(*told);
  }
  EXPECT_THAT(to_text(board, kNow, runs),
              AllOf(HasSubstr("3 of 8 ranks on this host, 1 told of by others"),
                    HasSubstr("  7     4711     there  runs\n"),
                    HasSubstr("  3     4711     behind  a call #6"),
                    HasSubstr("=> #7 waits for ranks 1, 3\n")));
}

TEST(Live, APageOfAFarRankIsFreeAgain) {
  const auto far = comm::FarMemory::make(0xabc, 3);
  ASSERT_NE(far, nullptr);
  comm::GroupPage* first = nullptr;
  for (int round = 0; round < 2; ++round) {
    comm::FarPage page = far->take(2, 77, {});
    if (round == 0) first = page.get();
    EXPECT_EQ(page.get(), first);
    EXPECT_EQ(page->last.load(), 0u);
    page->last.store(9);
    // Another group has another page, and more than there are private ones.
    std::vector<comm::FarPage> more;
    for (uint64_t uid = 100; uid < 100 + comm::kMostGroupPages; ++uid) {
      more.push_back(far->take(2, uid, {}));
      EXPECT_NE(more.back().get(), first);
    }
  }
}

TEST(Live, SaysWhenNobodyWaits) {
  LiveBoard board = some();
  for (LiveRank& rank : board.ranks) {
    rank.state = LiveRank::State::kLeft;
    for (LiveGroup& group : rank.groups) group.inside = 0;
  }
  EXPECT_THAT(to_text(board, kNow, runs), HasSubstr("  nobody waits\n"));
  EXPECT_TRUE(has_ended(board));
}

TEST(Live, AnythingInTheMemoryIsReadOrRefused) {
  auto memory = comm::HostMemory::make(2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const int fd = (*memory)->descriptor();
  // Before any rank has come.
  auto empty = LiveBoard::read(fd);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->job, 0u);
  EXPECT_THAT(empty->ranks, SizeIs(2));
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_TRUE((*memory)->reserve(&(*memory)->area(r).front).ok());
    for (const comm::GroupPage& group_board : (*memory)->area(r).groups)
      ASSERT_TRUE((*memory)->reserve(&group_board).ok());
  }
  uint64_t state = 12345;
  for (int round = 0; round < 30; ++round) {
    for (size_t r = 0; r < 2; ++r) {
      comm::Area& area = (*memory)->area(r);
      auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(&area);
      for (size_t i = 0; i < sizeof area / 8; ++i)
        words[i].store(round % 3 == 0 ? ~uint64_t{0}
                                      : state = comm::mix(state + i));
      if (round % 3 == 1) {
        // The first entry and the words agree.
        for (comm::GroupPage& group_board : area.groups) {
          group_board.inside.store(1);
          group_board.entries[1].number.store(1);
        }
      }
      if (round != 0) area.front.facts.layout = comm::kBoardLayout;
    }
    const auto board = LiveBoard::read(fd);
    EXPECT_EQ(board.ok(), round != 0);
    if (!board.ok()) continue;
    const std::string text = to_text(*board, kNow, runs);
    EXPECT_THAT(text, Not(HasSubstr("\033")));
    for (const char c : text) EXPECT_TRUE(c == '\n' || c < 0 || c >= ' ');
    EXPECT_FALSE(bench::json_text(to_json(*board, kNow, runs)).empty());
  }
}

TEST(Live, WhatIsNoBoardIsRefused) {
  EXPECT_EQ(error_reason(LiveBoard::read(-1).status()), Reason::kRefused);
  const base::Descriptor memory(memfd_create("distwrap board", MFD_CLOEXEC));
  for (const off_t size : {off_t{0}, off_t{4096}, off_t{comm::kAreaBytes} + 1,
                           off_t{comm::kAreaBytes} * 100'000}) {
    ASSERT_EQ(ftruncate(memory.get(), size), 0);
    EXPECT_EQ(error_reason(LiveBoard::read(memory.get()).status()),
              Reason::kRefused)
        << size;
  }
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  EXPECT_FALSE(LiveBoard::read(pipe[0]).ok());
  close(pipe[0]);
  close(pipe[1]);
}

// This process as a rank, and as an observer.
TEST(Live, WhoOnlyReadsIsNoneOfTheJob) {
  auto memory = comm::HostMemory::make(2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  comm::FrontPage& front = (*memory)->area(0).front;
  ASSERT_TRUE((*memory)->reserve(&front).ok());
  front.facts.layout = comm::kBoardLayout;
  front.facts.job = 0x1234'0000'0000'0000 + static_cast<uint64_t>(getpid());
  const std::string id = absl::StrCat(absl::Hex(front.facts.job));
  const base::Descriptor looking(
      open(absl::StrCat("/proc/self/fd/", (*memory)->descriptor()).c_str(),
           O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(looking.is_open());
  const auto job = find_job(id);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->board.job, front.facts.job);
  EXPECT_THAT(job->pids, ElementsAre(getpid()));
  memory->reset();
  EXPECT_FALSE(find_job(id).ok());
}

TEST(Live, JobsThatAreNotThere) {
  const auto text = [](const std::string& which) {
    return std::string(find_job(which).status().message());
  };
  EXPECT_THAT(text("soon"),
              HasSubstr("'soon' is neither a process nor the id"));
  EXPECT_THAT(text("-3"), HasSubstr("neither"));
  EXPECT_THAT(text("0123456789abcdef"), HasSubstr("no job of yours"));
  EXPECT_THAT(text("999999999"), HasSubstr("there is no process 999999999"));
  EXPECT_THAT(text(std::to_string(getpid())),
              HasSubstr("is not a rank of a job"));
  if (geteuid() != 0) {
    EXPECT_THAT(text("1"), HasSubstr("process 1 belongs to user 0"));
  }
  EXPECT_EQ(process_state(getpid()), "runs");
  EXPECT_EQ(process_state(999999999), "ended");
}

}  // namespace
}  // namespace distwrap::cli
