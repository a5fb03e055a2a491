// A rank for which others wait: which ranks learn of it, and the error when it
// does not come. Time decides nothing here: a rank is late until the waiting
// ranks have noticed.
#include "base/log.h"
#include "distwrap/distwrap.h"
#include "ranks/rank_threads.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/match.h>
#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap {
namespace {

using ::distwrap::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(1);

// The lines that are logged while the object lives.
class Lines {
 public:
  Lines() {
    base::set_log_sink([this](base::LogLevel, absl::string_view line) {
      std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~Lines() { base::set_log_sink(nullptr); }
  // A line that holds this text, once there is one.
  std::string wait_for(absl::string_view text) {
    for (;; absl::SleepFor(absl::Milliseconds(10))) {
      std::lock_guard lock(mutex_);
      for (const std::string& line : lines_)
        if (absl::StrContains(line, text)) return line;
    }
  }
  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// The reports to each rank's hook.
struct Told {
  std::string group, op, label, text;
  uint64_t seq = 0;
  std::vector<RankSeen> missing;
  bool logged = false;
};

Told copy_of(const Straggling& s) {
  return {std::string(s.group),
          std::string(s.op),
          std::string(s.label),
          std::string(s.text),
          s.seq,
          {s.missing.begin(), s.missing.end()},
          s.logged};
}

class Stragglers : public ::testing::TestWithParam<bool> {
 protected:
  absl::Status call(const Group& group, absl::string_view label) const {
    const OpOptions o{.group = group, .async = GetParam(), .label = label};
    const auto work = barrier(o);
    return work.ok() ? work->wait() : work.status();
  }
};

TEST_P(Stragglers, AreOneLineForEachGroupAndOneHookForEachThatWaits) {
  Lines lines;
  std::mutex mutex;
  std::vector<Told> told;
  // From the two waiting ranks, each time.
  absl::Notification noticed[2][2], noticed_in_pair;
  run_ranks(3,
            {.backend = "gloo",
             .timeout = absl::Seconds(120),
             .straggler = kPatience},
            [&](Session& session) {
              const auto pair = split_group(
                  {.parent = session.world(), .split_ranks = {{0, 1}, {2}}});
              ASSERT_TRUE(pair.ok()) << pair.status();
              const int me = session.rank();
              int times = 0;
              const auto hook = add_hook(
                  session.world(), {.straggler = [&](const Straggling& s) {
                    std::lock_guard lock(mutex);
                    told.push_back(copy_of(s));
                    EXPECT_EQ(s.rank, me);
                    EXPECT_GE(s.waited, kPatience);
                    noticed[me / 2][times++].Notify();
                  }});
              ASSERT_TRUE(hook.ok());
              for (int round = 0; round < 2; ++round) {
                EXPECT_TRUE(call(session.world(), "in time").ok());
                if (me == 1)
                  for (auto& rank : noticed) rank[round].WaitForNotification();
                EXPECT_TRUE(call(session.world(), "late").ok());
              }
              if (me == 2) return;
              const auto in_pair =
                  add_hook(*pair, {.straggler = [&](const Straggling& s) {
                    EXPECT_TRUE(s.logged);
                    noticed_in_pair.Notify();
                  }});
              if (me == 1) noticed_in_pair.WaitForNotification();
              EXPECT_TRUE(call(*pair, "pair").ok());
            });
  EXPECT_THAT(told, SizeIs(4));
  int logged = 0;
  for (const Told& one : told) {
    EXPECT_EQ(one.op, "barrier");
    EXPECT_EQ(one.group, "world");
    EXPECT_EQ(one.label, "late");
    ASSERT_THAT(one.missing, SizeIs(1));
    EXPECT_EQ(one.missing[0].rank, 1);
    EXPECT_EQ(one.missing[0].doing, RankSeen::Doing::kDone);
    EXPECT_EQ(one.missing[0].seq, one.seq - 1);
    EXPECT_EQ(one.missing[0].label, "in time");
    EXPECT_FALSE(one.missing[0].host.empty());
    logged += one.logged ? 1 : 0;
  }
  EXPECT_EQ(logged, 2);
  const std::vector<std::string> said = lines.take();
  ASSERT_THAT(said, SizeIs(3));
  for (size_t i = 0; i < 2; ++i)
    EXPECT_THAT(said[i], AllOf(HasSubstr("\"world\": barrier #"),
                               HasSubstr(" [late] has waited "),
                               HasSubstr(" for rank 1 of 3; rank 1 (process "),
                               HasSubstr(" has come out of barrier #"),
                               HasSubstr(" [in time] ")));
  EXPECT_THAT(said[2], HasSubstr(" [pair] has waited "));
}

// The message comes when the line has been seen.
TEST_P(Stragglers, OfMessagesAreALineOfTheRankThatWaits) {
  Lines lines;
  run_ranks(
      2,
      {.backend = "shm",
       .timeout = absl::Seconds(120),
       .straggler = absl::Milliseconds(200)},
      [&](Session& session) {
        bind_session(session);
        const absl::Cleanup unbound = [] { bind_session({}); };
        std::vector<float> x(3, 1.0f);
        if (session.rank() == 1) {
          EXPECT_THAT(lines.wait_for("recv"),
                      AllOf(HasSubstr("\"world\": rank 0: recv of f32 x 3 from "
                                      "rank 1 with tag 7 [late] has waited "),
                            HasSubstr("Next: ")));
          EXPECT_TRUE(send(TensorView(x), Peer::global(0), 7).ok());
          return;
        }
        if (GetParam()) {
          const auto work =
              irecv(TensorView(x), Peer::global(1), 7, {.label = "late"});
          ASSERT_TRUE(work.ok()) << work.status();
          EXPECT_TRUE(work->wait().ok());
          return;
        }
        EXPECT_TRUE(
            recv(TensorView(x), Peer::global(1), 7, {.label = "late"}).ok());
      });
  EXPECT_THAT(lines.take(), SizeIs(1)) << "once for each message";
}

TEST_P(Stragglers, ThatDoNotComeAreInTheErrorAtTheDeadline) {
  Lines lines;
  std::mutex mutex;
  std::vector<absl::Status> errors;
  absl::Notification over[2];
  run_ranks(3, {.backend = "gloo", .straggler = absl::InfiniteDuration()},
            [&](Session& session) {
              const int me = session.rank();
              ASSERT_TRUE(call(session.world(), "in time").ok());
              if (me == 1) {
                for (auto& rank : over) rank.WaitForNotification();
                EXPECT_FALSE(call(session.world(), "late").ok());
                return;
              }
              ASSERT_TRUE(set_timeout(session.world(), kPatience).ok());
              absl::Status status = call(session.world(), "late");
              over[me / 2].Notify();
              std::lock_guard lock(mutex);
              errors.push_back(std::move(status));
            });
  EXPECT_THAT(lines.take(), IsEmpty()) << "nobody asked";
  ASSERT_THAT(errors, SizeIs(2));
  int timed_out = 0;
  for (const absl::Status& status : errors) {
    const std::optional<ErrorInfo> info = error_info(status);
    ASSERT_TRUE(info.has_value()) << status;
    timed_out += info->reason == Reason::kTimedOut ? 1 : 0;
    EXPECT_THAT(info->ranks, ElementsAre(1)) << status;
    ASSERT_THAT(info->seen, SizeIs(1)) << status;
    const RankSeen& seen = info->seen[0];
    EXPECT_EQ(seen.rank, 1);
    EXPECT_EQ(seen.global_rank, 1);
    EXPECT_EQ(seen.pid, getpid());
    EXPECT_EQ(seen.call, "barrier");
    EXPECT_EQ(seen.label, "in time");
    EXPECT_EQ(seen.seq, info->seq - 1);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("; rank 1 (process " + std::to_string(getpid()) + " on "));
  }
  EXPECT_GE(timed_out, 1);
}

// Over a backend that knows for which rank it waits: rank 1 waits for rank 0,
// which waits for rank 2.
TEST(Missing, IsAlsoWhomAnotherOneWaitsFor) {
  absl::Notification over;
  run_ranks(3, {.backend = "shm", .timeout = absl::Seconds(120)},
            [&](Session& session) {
              const OpOptions o{.group = session.world()};
              ASSERT_TRUE(barrier(o).ok());
              const int me = session.rank();
              if (me == 2) return over.WaitForNotification();
              float in[1] = {1}, all[3] = {};
              const absl::Status gathered =
                  gather_into_tensor(TensorView(all, me == 0 ? 3 : 0),
                                     TensorView(in, 1), Peer::group(0), {}, o)
                      .status();
              if (me == 0) {
                EXPECT_FALSE(gathered.ok());
                return;
              }
              ASSERT_TRUE(gathered.ok()) << gathered;
              const absl::Status status =
                  broadcast(TensorView(in, 1), Peer::group(0),
                            {.group = session.world(), .timeout = kPatience})
                      .status();
              over.Notify();
              EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
              EXPECT_THAT(error_info(status)->ranks, ElementsAre(0, 2))
                  << status;
            });
}

INSTANTIATE_TEST_SUITE_P(Ways, Stragglers, ::testing::Bool(),
                         [](const auto& param) {
                           return param.param ? "async" : "waiting";
                         });

TEST(StragglerSetting, IsCheckedAndMayBeNever) {
  for (const char* junk : {"-1", "soon", "nan"}) {
    setenv("DISTWRAP_STRAGGLER", junk, 1);
    const auto session = Session::create({.rank = 0, .world_size = 1});
    unsetenv("DISTWRAP_STRAGGLER");
    EXPECT_EQ(error_reason(session.status()), Reason::kInvalidArgument) << junk;
    EXPECT_THAT(std::string(session.status().message()),
                HasSubstr("DISTWRAP_STRAGGLER"));
  }
  EXPECT_EQ(error_reason(Session::create({.rank = 0,
                                          .world_size = 1,
                                          .straggler = absl::ZeroDuration()})
                             .status()),
            Reason::kInvalidArgument);
  setenv("DISTWRAP_STRAGGLER", "0", 1);
  Lines lines;
  run_ranks(2, {.backend = "gloo"}, [&](Session& session) {
    if (session.rank() == 1) absl::SleepFor(kPatience / 2);
    EXPECT_TRUE(barrier({.group = session.world()}).ok());
  });
  unsetenv("DISTWRAP_STRAGGLER");
  EXPECT_THAT(lines.take(), IsEmpty());
}

}  // namespace
}  // namespace distwrap
