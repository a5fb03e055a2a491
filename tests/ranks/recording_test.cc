// The recordings of sessions, and the conclusion from those of all ranks.
#include "recordings/recording.h"

#include "distwrap/distwrap.h"
#include "ranks/rank_threads.h"
#include "ranks/recordings_folder.h"
#include "recordings/behind.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using cli::JobRecording;
using cli::RankRecording;
using cli::RecordedOp;
using ::distwrap::testing::run_ranks;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Recordings : public ::testing::Test {
 protected:
  JobRecording recorded() {
    auto job = cli::read_recordings(folder_.path());
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : JobRecording();
  }

  const testing::RecordingsFolder folder_;
};

std::vector<std::string> calls_of(const RankRecording& recording) {
  std::vector<std::string> calls;
  for (const RecordedOp& op : recording.operations)
    calls.push_back(cli::describe(op));
  return calls;
}

TEST_F(Recordings, HoldWhatEachRankDid) {
  run_ranks(
      2, {.backend = "gloo", .timeout = absl::Seconds(60)},
      [](Session& session) {
        const Group world = session.world();
        const int other = 1 - session.rank();
        std::vector<float> x(256, 1), y(256);
        ASSERT_TRUE(all_reduce(TensorView(x), ReduceOp::kSum,
                               {.group = world, .label = "gradients"})
                        .ok());
        const auto work = broadcast(TensorView(x), Peer::group(1),
                                    {.group = world, .async = true});
        ASSERT_TRUE(work.ok()) << work.status();
        ASSERT_TRUE(work->wait().ok());
        Batch batch;
        batch.send(TensorView(x), Peer::group(other), 7, {.group = world});
        batch.recv(TensorView(y), Peer::group(other), 7, {.group = world});
        const auto both = batch.submit();
        ASSERT_TRUE(both.ok()) << both.status();
        ASSERT_TRUE(both->wait().ok());
        // A refused call did nothing and is not recorded.
        EXPECT_FALSE(all_reduce(TensorView(x.data(), -1), ReduceOp::kSum,
                                {.group = world})
                         .ok());
        const auto path = session.save_recording();
        ASSERT_TRUE(path.ok()) << path.status();
        EXPECT_THAT(*path,
                    HasSubstr(absl::StrCat("rank-", session.rank(), ".json")));
      });
  const JobRecording job = recorded();
  ASSERT_EQ(job.ranks.size(), 2u);
  for (const RankRecording& rank : job.ranks) {
    EXPECT_THAT(
        calls_of(rank),
        ElementsAre("all_reduce #1 (f32 x 256, sum, 'gradients')",
                    "broadcast #2 (f32 x 256, root 1)",
                    HasSubstr("send with tag"), HasSubstr("recv with tag")));
    EXPECT_THAT(rank.operations, Each(Field(&RecordedOp::state, "done")));
    for (const RecordedOp& op : rank.operations) {
      EXPECT_LE(op.submitted_ns, op.started_ns);
      EXPECT_LE(op.submitted_ns, op.ended_ns);
    }
    EXPECT_EQ(rank.cause, "asked");
    EXPECT_EQ(rank.groups.size(), 1u);
  }
  const auto groups = cli::positions_of(job);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].name, "world");
  EXPECT_EQ(groups[0].backend, "gloo");
  EXPECT_THAT(groups[0].findings, IsEmpty());
}

// A call that waited for its turn behind one in its caller's thread.
TEST_F(Recordings, AShortCallThatWaitedHasTakenTime) {
  run_ranks(
      2, {.backend = "shm", .timeout = absl::Seconds(60)},
      [](Session& session) {
        const Group world = session.world();
        std::vector<float> x(2, 1), y(2, 1);
        ASSERT_TRUE(barrier({.group = world}).ok());
        if (session.rank() == 1) absl::SleepFor(absl::Milliseconds(50));
        const auto work = all_reduce(TensorView(x), ReduceOp::kSum,
                                     {.group = world, .async = true});
        ASSERT_TRUE(work.ok()) << work.status();
        ASSERT_TRUE(
            all_reduce(TensorView(y), ReduceOp::kSum, {.group = world}).ok());
        ASSERT_TRUE(work->wait().ok());
        ASSERT_TRUE(session.save_recording().ok());
      });
  const JobRecording job = recorded();
  ASSERT_EQ(job.ranks.size(), 2u);
  ASSERT_EQ(job.ranks[0].operations.size(), 3u);
  const RecordedOp& waited = job.ranks[0].operations[2];
  EXPECT_GT(waited.ended_ns, waited.submitted_ns) << "it shows as quick";
}

TEST_F(Recordings, NameTheRankThatDidNotCall) {
  std::atomic<bool> failed{false};
  run_ranks(2, {.backend = "gloo", .timeout = absl::Seconds(60)},
            [&](Session& session) {
              const Group world = session.world();
              ASSERT_TRUE(barrier({.group = world}).ok());
              if (session.rank() == 1) {
                ASSERT_TRUE(session.save_recording().ok());
                // Rank 0 could see the end of this rank's call.
                for (int i = 0; i < 60'000 && !failed; ++i)
                  absl::SleepFor(absl::Milliseconds(1));
                return;
              }
              float x = 1;
              const auto late = all_reduce(
                  TensorView(&x, 1), ReduceOp::kSum,
                  {.group = world, .timeout = absl::Milliseconds(100)});
              failed = true;
              EXPECT_EQ(error_reason(late.status()), Reason::kTimedOut)
                  << late.status();
              // Saved automatically, before the record had its end.
              ASSERT_TRUE(session.save_recording().ok());
            });
  const JobRecording job = recorded();
  ASSERT_EQ(job.ranks.size(), 2u);
  const auto groups = cli::positions_of(job);
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_FALSE(groups[0].findings.empty());
  EXPECT_THAT(groups[0].findings[0],
              HasSubstr("rank 1 is 1 behind: rank 0 has called all_reduce #2"));
  EXPECT_EQ(job.ranks[0].operations.back().state, "kTimedOut");
}

TEST_F(Recordings, AreSavedWhenAGroupBreaks) {
  run_ranks(2, {.backend = "gloo", .timeout = absl::Seconds(60)},
            [](Session& session) {
              if (session.rank() == 1) return;
              float x = 1;
              EXPECT_FALSE(all_reduce(TensorView(&x, 1), ReduceOp::kSum,
                                      {.group = session.world(),
                                       .timeout = absl::Milliseconds(100)})
                               .ok());
            });
  const JobRecording job = recorded();
  ASSERT_FALSE(job.ranks.empty());
  EXPECT_EQ(job.ranks[0].rank, 0);
  EXPECT_EQ(job.ranks[0].cause, "failure");
  EXPECT_THAT(calls_of(job.ranks[0]), ElementsAre(HasSubstr("all_reduce #1")));
}

TEST_F(Recordings, AreSavedAtTheChosenSignal) {
  setenv("DISTWRAP_RECORDER_SIGNAL", "USR2", 1);
  run_ranks(2, {.backend = "gloo", .timeout = absl::Seconds(60)},
            [&](Session& session) {
              const OpOptions o{.group = session.world()};
              ASSERT_TRUE(barrier(o).ok());
              if (session.rank() == 0) raise(SIGUSR2);
              ASSERT_TRUE(barrier(o).ok());
            });
  unsetenv("DISTWRAP_RECORDER_SIGNAL");
  const JobRecording job = recorded();
  ASSERT_EQ(job.ranks.size(), 2u);
  EXPECT_EQ(job.ranks[0].cause, "signal");
  EXPECT_EQ(job.ranks[1].cause, "signal");
}

TEST_F(Recordings, GroupsHaveTheirOwn) {
  run_ranks(2, {.backend = "gloo", .timeout = absl::Seconds(60)},
            [](Session& session) {
              const auto own = split_group_by_color(
                  session.rank(), 0, {.parent = session.world()});
              ASSERT_TRUE(own.ok()) << own.status();
              ASSERT_TRUE(barrier({.group = *own}).ok());
              ASSERT_TRUE(session.save_recording().ok());
            });
  const JobRecording job = recorded();
  const auto groups = cli::positions_of(job);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1].ranks.size(), 1u);
  EXPECT_NE(groups[1].ranks[0].rank, groups[2].ranks[0].rank);
}

TEST_F(Recordings, CanBeOff) {
  setenv("DISTWRAP_RECORDER", "0", 1);
  run_ranks(1, {.backend = "loopback"}, [](Session& session) {
    ASSERT_TRUE(barrier({.group = session.world()}).ok());
    EXPECT_EQ(error_reason(session.save_recording().status()),
              Reason::kUnsupported);
  });
  setenv("DISTWRAP_RECORDER", "perhaps", 1);
  EXPECT_EQ(
      error_reason(Session::create({.rank = 0, .world_size = 1}).status()),
      Reason::kInvalidArgument);
  unsetenv("DISTWRAP_RECORDER");
  EXPECT_FALSE(cli::read_recordings(folder_.path()).ok());
}

TEST_F(Recordings, AFolderThatCannotBeMadeIsNamed) {
  setenv("DISTWRAP_RECORDER_DIR", "/proc/nowhere", 1);
  run_ranks(1, {.backend = "loopback"}, [](Session& session) {
    const absl::Status status = session.save_recording().status();
    EXPECT_EQ(error_reason(status), Reason::kRunDirectory) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere"));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("DISTWRAP_RECORDER_DIR"));
  });
}

}  // namespace
}  // namespace distwrap
