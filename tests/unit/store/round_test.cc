// Ranks that come, leave, return, come twice and come too late.
#include "store/round.h"

#include "distwrap/status.h"
#include "store/process_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(absl::Seconds(10)); }

class RoundTest : public ::testing::Test {
 protected:
  absl::StatusOr<Round> enter(int rank, const std::string& terms = "same") {
    return Round::enter(store_, {"job", rank, 2, terms}, soon());
  }
  Round must_enter(int rank) {
    absl::StatusOr<Round> round = enter(rank);
    EXPECT_TRUE(round.ok()) << round.status();
    return *std::move(round);
  }
  // Puts a process that has ended in the place of `rank`.
  void pretend_dead(int rank, int round) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ASSERT_TRUE(store_
                    ->set("job/session/" + std::to_string(round) + "/rank/" +
                              std::to_string(rank),
                          "in " + std::to_string(child) + " 1 " + name_space(),
                          soon())
                    .ok());
  }
  // Puts a living process, the parent, in the place of `rank`.
  void pretend_other(int rank, int round) {
    const ProcessIdentity parent = *ProcessIdentity::of(getppid());
    ASSERT_TRUE(store_
                    ->set("job/session/" + std::to_string(round) + "/rank/" +
                              std::to_string(rank),
                          "in " + parent.encode() + " #1", soon())
                    .ok());
  }
  static std::string name_space() {
    return std::to_string(ProcessIdentity::of_self().name_space) + " #1";
  }

  std::shared_ptr<Store> store_ = Store::in_memory();
};

TEST_F(RoundTest, SessionAfterSession) {
  for (int i = 1; i <= 3; ++i) {
    Round a = must_enter(0), b = must_enter(1);
    EXPECT_EQ(a.number(), i);
    EXPECT_EQ(b.number(), i);
    EXPECT_EQ(a.key("x"), b.key("x"));
    EXPECT_TRUE(a.agree(soon()).ok());
    EXPECT_TRUE(b.agree(soon()).ok());
    EXPECT_TRUE(a.close(soon()).ok());
    EXPECT_TRUE(b.close(soon()).ok());
    a.leave(soon());
    b.leave(soon());
  }
}

TEST_F(RoundTest, ARankThatTriesAgainIsNotOutOfStep) {
  for (int i = 0; i < 3; ++i) {
    Round failed = must_enter(1);
    failed.give_up("rank 0 is missing", soon());
    failed.leave(soon());
  }
  Round again = must_enter(1), other = must_enter(0);
  EXPECT_EQ(again.number(), other.number());
}

TEST_F(RoundTest, ARankTakenByALiveProcessIsRefused) {
  pretend_other(1, 1);
  const absl::Status status = enter(1).status();
  EXPECT_EQ(error_reason(status), Reason::kRefused) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("process " + std::to_string(getppid())));
  EXPECT_TRUE(enter(0).ok());
}

TEST_F(RoundTest, ARankOfARunningRoundIsRefused) {
  Round a = must_enter(0), b = must_enter(1);
  EXPECT_TRUE(a.close(soon()).ok());
  pretend_other(1, 1);
  EXPECT_EQ(error_reason(enter(1).status()), Reason::kRefused);
  // A place of this process may be taken again, since sessions run side by
  // side.
  EXPECT_TRUE(enter(0).ok());
}

TEST_F(RoundTest, TwiceInOneProcessIsRefusedToo) {
  Round first = must_enter(0);
  const absl::Status status = enter(0).status();
  EXPECT_EQ(error_reason(status), Reason::kRefused) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("this process"));
  first.leave(soon());
  EXPECT_TRUE(enter(0).ok());
}

TEST_F(RoundTest, ADeadProcessLosesItsPlace) {
  pretend_dead(1, 1);
  EXPECT_TRUE(enter(1).ok());
}

TEST_F(RoundTest, TooLateIsSaidOnce) {
  Round waiting = must_enter(0);
  waiting.give_up("rank 1 is missing", soon());
  waiting.leave(soon());
  const absl::Status late = enter(1).status();
  EXPECT_EQ(error_reason(late), Reason::kRefused) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("too late"));
  EXPECT_THAT(std::string(late.message()), HasSubstr("rank 1 is missing"));
  EXPECT_TRUE(enter(1).ok());
}

TEST_F(RoundTest, WhoIsTriedForAgainIsNotTooLate) {
  Round waiting = must_enter(0);
  waiting.give_up("rank 1 is missing", soon());
  waiting.leave(soon());
  Round again = must_enter(0);
  Round other = must_enter(1);
  EXPECT_EQ(again.number(), other.number());
}

// A round ends once.
TEST_F(RoundTest, WhoeverEndsItFirstDecides) {
  {
    Round a = must_enter(0), b = must_enter(1);
    EXPECT_TRUE(a.close(soon()).ok());
    EXPECT_FALSE(b.give_up("too slow", soon())) << "it was complete";
    a.leave(soon());
    b.leave(soon());
  }
  Round a = must_enter(0), b = must_enter(1);
  EXPECT_TRUE(a.give_up("rank 1 is missing", soon()));
  EXPECT_TRUE(b.give_up("rank 0 is missing", soon()));
  const absl::Status status = b.close(soon());
  EXPECT_EQ(error_reason(status), Reason::kRefused) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 is missing"));
}

// The rank entered in time, and a rank that tries again opens a new round.
TEST_F(RoundTest, ANewAttemptCanBeCompletedAndGivenUp) {
  for (const bool complete : {true, false}) {
    Round failed = must_enter(1);
    EXPECT_TRUE(failed.give_up("rank 0 is missing", soon()));
    failed.leave(soon());
    Round again = must_enter(1), other = must_enter(0);
    ASSERT_EQ(again.number(), failed.number() + 1);
    ASSERT_EQ(other.number(), again.number());
    if (complete) {
      EXPECT_TRUE(other.close(soon()).ok());
      EXPECT_TRUE(again.close(soon()).ok());
    } else {
      EXPECT_TRUE(other.give_up("one", soon()));
      EXPECT_EQ(error_reason(again.close(soon())), Reason::kRefused);
    }
    again.leave(soon());
    other.leave(soon());
  }
}

TEST_F(RoundTest, OtherTermsAreNamedWithBothSides) {
  Round first = must_enter(0);
  ASSERT_TRUE(first.agree(soon()).ok());
  auto second = enter(1, "different");
  ASSERT_TRUE(second.ok()) << second.status();
  const absl::Status status = second->agree(soon());
  EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
  EXPECT_THAT(error_info(status)->ranks, ElementsAre(0));
  EXPECT_THAT(error_info(status)->expected, HasSubstr("different"));
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(error_info(status)->actual,
            "same, process " + std::to_string(getpid()) + " on " + host);
  second->leave(soon());
  first.leave(soon());
  // A new attempt may have other terms.
  auto corrected = enter(0, "different");
  EXPECT_TRUE(corrected->agree(soon()).ok());
}

TEST_F(RoundTest, NoKeysPileUp) {
  for (int i = 1; i <= 2; ++i) {
    Round a = must_enter(0), b = must_enter(1);
    ASSERT_TRUE(a.agree(soon()).ok() && b.agree(soon()).ok());
    EXPECT_TRUE(a.close(soon()).ok());
    EXPECT_TRUE(b.close(soon()).ok());
    a.leave(soon());
    b.leave(soon());
    for (const char* what : {"rank/0", "rank/1", "terms"}) {
      const auto there = store_->delete_key(a.key(what), soon());
      EXPECT_FALSE(*there) << what;
    }
  }
}

// Failed attempts leave little in the store, and nothing after a success.
TEST_F(RoundTest, FailedAttemptsDoNotPileUp) {
  std::vector<std::string> keys;
  for (int i = 0; i < 4; ++i) {
    Round a = must_enter(0), b = must_enter(1);
    ASSERT_TRUE(a.agree(soon()).ok() && b.agree(soon()).ok());
    for (const char* what : {"rank/0", "rank/1", "terms", "hello/present"})
      keys.push_back(a.key(what));
    ASSERT_TRUE(store_->add(a.key("hello/present"), 1, soon()).ok());
    if (i < 3) {
      EXPECT_TRUE(a.give_up("it failed", soon()));
    } else {
      EXPECT_TRUE(a.close(soon()).ok());
      EXPECT_TRUE(b.close(soon()).ok());
      EXPECT_TRUE(*store_->delete_key(a.key("hello/present"), soon()));
    }
    a.leave(soon());
    b.leave(soon());
  }
  for (const std::string& key : keys)
    EXPECT_FALSE(*store_->delete_key(key, soon())) << key;
}

TEST_F(RoundTest, AStoreOfSomebodyElse) {
  for (const char* text : {"squirrel", "1", "1 x", "1 0 7", "1 0 x why", " "}) {
    ASSERT_TRUE(store_->set("job/round", text, soon()).ok());
    const absl::Status status = enter(0).status();
    EXPECT_EQ(error_reason(status), Reason::kRefused) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(ProcessIdentity, Texts) {
  const ProcessIdentity self = ProcessIdentity::of_self();
  EXPECT_TRUE(self.may_live());
  EXPECT_EQ(ProcessIdentity::decode(self.encode()), self);
  for (const char* junk : {"", "1", "1 2", "a 2 3", "1 2 3 4", "-1 2 3"})
    EXPECT_FALSE(ProcessIdentity::decode(junk).has_value()) << junk;
  // Another process with the same id.
  ProcessIdentity earlier = self;
  earlier.start_ticks -= 1;
  EXPECT_FALSE(earlier.may_live());
  // Process ids of another namespace prove nothing.
  earlier.name_space += 1;
  EXPECT_TRUE(earlier.may_live());
  EXPECT_GT(own_start_ns(), 0);
  EXPECT_LE(own_start_ns(), boot_clock_ns());
}

}  // namespace
}  // namespace distwrap::store
