// The door, preloaded, before engines that count their calls. Links
// libdistwrap.so as programs do.
#include "guarded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
struct Large {
  long numbers[5];
};
#define ncclSignal left_out
#define DW_GUARDED(symbol, library, instead) long symbol(long, long, long);
#include "guard/guarded_calls.def"
#undef ncclSignal
double ncclSignal(long, long, long, long, long, long, long, long, long, long,
                  double, double, double, double, double, double, double,
                  double, double, double, Large, float);
}

namespace distwrap {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

enum class Library { NCCL, MPI, UCX, GLOO };

struct Guarded {
  std::string name;
  Library library;
  long (*call)(long, long, long);
};

// All functions of the fake engines but for those with another signature.
std::vector<Guarded> all_functions() {
  std::vector<Guarded> all;
#define ncclSignal ncclSend
#define ncclWaitSignal ncclSend
#define MPI_Psend_init ncclSend
#define DW_GUARDED(symbol, library, instead) \
  all.push_back({#symbol, Library::library, &::symbol});
#include "guard/guarded_calls.def"
#undef MPI_Psend_init
#undef ncclWaitSignal
#undef ncclSignal
  std::erase_if(all, [](const Guarded& one) {
    return one.name == "ncclWaitSignal" || one.name == "MPI_Psend_init" ||
           one.name == "ncclSignal";
  });
  return all;
}

constexpr long kThrew = -1000;

// Calls as a program does; kThrew for an exception with the right text.
long outcome(const Guarded& function) {
  try {
    const long result = function.call(1, 2, 3);
    return result;
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("kDirectCall"));
    return kThrew;
  }
}

long refused(Library library) {
  switch (library) {
    case Library::NCCL:
      return 5;
    case Library::MPI:
      return 15;
    case Library::UCX:
      return -22;
    case Library::GLOO:
      break;
  }
  return kThrew;
}

const Guarded kSend = {"ncclSend", Library::NCCL, &ncclSend};

TEST_F(Guard, EveryFunctionIsRefusedWhileASessionGuards) {
  const std::vector<Guarded> all = all_functions();
  ASSERT_GT(all.size(), 150u);
  EXPECT_EQ(guard_status().functions.size(), all.size() + 3);
  const auto pass_all = [&] {
    fake_engine_calls = 0;
    for (const Guarded& one : all) EXPECT_EQ(outcome(one), kDone) << one.name;
    EXPECT_EQ(fake_engine_calls, static_cast<int>(all.size()));
  };
  pass_all();
  const Session session = session_of_one(GuardMode::kBlock);
  std::map<std::string, uint64_t> before;
  for (const GuardStatus::Function& one : guard_status().functions)
    before[one.name] = one.refused;
  fake_engine_calls = 0;
  for (const Guarded& one : all)
    EXPECT_EQ(outcome(one), refused(one.library)) << one.name;
  EXPECT_EQ(fake_engine_calls, 0);
  {
    const GuardAllow allow("a test");
    pass_all();
  }
  const GuardStatus status = guard_status();
  EXPECT_EQ(status.mode, GuardMode::kBlock);
  size_t refused_now = 0;
  for (const GuardStatus::Function& one : status.refusals) {
    if (one.refused == before[one.name]) continue;
    EXPECT_EQ(one.refused, before[one.name] + 1) << one.name;
    EXPECT_THAT(one.instead, HasSubstr("distwrap_"));
    ++refused_now;
  }
  EXPECT_EQ(refused_now, all.size());
  EXPECT_TRUE(session.close().ok());
  pass_all();
  EXPECT_EQ(guard_status().mode, GuardMode::kOff);
}

TEST_F(Guard, ArgumentsArriveUnharmed) {
  const auto call = [] {
    errno = 3;
    return ncclSignal(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, .1, .2, .3, .4, .5, .6, .7,
                      .8, .9, 1.0, {{100, 0, 0, 0, 1000}}, 0.5f);
  };
  const double expected = 385 + 2100 + 38.5 + 0.5 + 3;
  EXPECT_NEAR(call(), expected, 1e-9);
  const Session session = session_of_one(GuardMode::kBlock);
  const GuardAllow allow("a test");
  EXPECT_NEAR(call(), expected, 1e-9);
  EXPECT_TRUE(session.close().ok());
}

TEST_F(Guard, WarnLetsCallsPassAndCountsThem) {
  const Session session = session_of_one(GuardMode::kWarn);
  const auto count = [] {
    for (const auto& one : guard_status().refusals)
      if (one.name == "ncclSend") return one.refused;
    return uint64_t{0};
  };
  const uint64_t before = count();
  EXPECT_EQ(outcome(kSend), kDone);
  EXPECT_EQ(outcome(kSend), kDone);
  EXPECT_EQ(count(), before + 2);
  EXPECT_TRUE(session.close().ok());
}

TEST_F(Guard, TheStrictestLivingSessionDecides) {
  const Session quiet = session_of_one(GuardMode::kOff);
  EXPECT_EQ(outcome(kSend), kDone);
  const Session warns = session_of_one(GuardMode::kWarn);
  const Session first = session_of_one(GuardMode::kRequire);
  const Session second = session_of_one(GuardMode::kBlock);
  EXPECT_EQ(outcome(kSend), 5);
  EXPECT_TRUE(first.close().ok());
  EXPECT_EQ(outcome(kSend), 5);
  EXPECT_TRUE(second.close().ok());
  EXPECT_EQ(outcome(kSend), kDone);
  EXPECT_EQ(guard_status().mode, GuardMode::kWarn);
  EXPECT_TRUE(warns.close().ok());
  EXPECT_EQ(guard_status().mode, GuardMode::kOff);
  EXPECT_TRUE(quiet.close().ok());
}

TEST_F(Guard, AStartThatFailsOpensTheDoorAgain) {
  for (const char* backend : {"nobody", "cpu:shm:x"}) {
    const auto made = Session::create({.backend = backend,
                                       .rank = 0,
                                       .world_size = 1,
                                       .guard = GuardMode::kBlock});
    EXPECT_FALSE(made.ok());
    EXPECT_EQ(guard_status().mode, GuardMode::kOff);
    EXPECT_EQ(outcome(kSend), kDone);
  }
  // A session that is dropped without an end.
  { const Session dropped = session_of_one(GuardMode::kBlock); }
  EXPECT_EQ(guard_status().mode, GuardMode::kOff);
}

TEST_F(Guard, ScopesNestAndBelongToTheirThread) {
  const Session session = session_of_one(GuardMode::kBlock);
  {
    const GuardAllow outer("outer");
    { const GuardAllow inner("inner"); }
    EXPECT_EQ(outcome(kSend), kDone);
    EXPECT_THAT(guard_status().scopes, UnorderedElementsAre("outer"));
    std::thread([] { EXPECT_EQ(outcome(kSend), 5); }).join();
  }
  EXPECT_EQ(outcome(kSend), 5);
  try {
    const GuardAllow allow("ends by an exception");
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(outcome(kSend), 5);
  EXPECT_THAT(guard_status().scopes, testing::IsEmpty());
  const absl::Status none = guard_leave();
  EXPECT_EQ(error_reason(none), Reason::kInvalidArgument);
  guard_enter("c");
  std::thread([] { EXPECT_FALSE(guard_leave().ok()); }).join();
  EXPECT_EQ(outcome(kSend), kDone);
  EXPECT_TRUE(guard_leave().ok());
  EXPECT_EQ(outcome(kSend), 5);
  EXPECT_TRUE(session.close().ok());
}

TEST_F(Guard, AFunctionThatExistsNowhereIsAnErrorOfItsCall) {
  const auto call = [](const char* name) {
    void* const thunk = dlsym(RTLD_DEFAULT, name);
    return reinterpret_cast<long (*)(long, long, long)>(thunk)(1, 2, 3);
  };
  EXPECT_EQ(call("MPI_Psend_init"), 15);
  EXPECT_EQ(call("ncclWaitSignal"), 5);
}

TEST_F(Guard, TheChildOfAForkIsNotGuarded) {
  const Session session = session_of_one(GuardMode::kBlock);
  const pid_t child = fork();
  if (child == 0) _exit(ncclSend(1, 2, 3) == kDone ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(outcome(kSend), 5);
  EXPECT_TRUE(session.close().ok());
}

}  // namespace
}  // namespace distwrap
