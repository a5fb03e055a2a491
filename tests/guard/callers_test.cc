// The callers that pass while a session guards: engines, their parts, modules
// that the program names, and threads inside distwrap.
#include "distwrap/distwrap.h"
#include "guarded.h"

#include <gmock/gmock.h>

#include <stdlib.h>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

class GuardCallers : public Guard {};

TEST_F(GuardCallers, PartsOfEnginesPassByTheirNames) {
  const Loaded caller(CALLER), network(NETWORK_CALLER), component(MCA_CALLER);
  const Session session = session_of_one(GuardMode::kBlock);
  EXPECT_EQ(caller("call_send"), kRefused);
  EXPECT_EQ(network("call_send"), kDone) << "a network plugin of NCCL";
  EXPECT_EQ(component("call_send"), kDone) << "a component of Open MPI";
  EXPECT_EQ(caller("call_send"), kRefused);
  EXPECT_TRUE(session.close().ok());
}

TEST_F(GuardCallers, AnEngineCallsItself) {
  const Loaded caller(CALLER);
  const Session session = session_of_one(GuardMode::kBlock);
  EXPECT_EQ(engine_calls_itself(), kDone) << "one that the program links";
  EXPECT_EQ(caller("call_engine"), 88) << "one that only its loader sees";
  EXPECT_EQ(caller("call_local"), kRefused);
  EXPECT_TRUE(session.close().ok());
}

TEST_F(GuardCallers, ModulesThatTheProgramNamesPass) {
  const Loaded caller(CALLER), other(OTHER_CALLER);
  const Session session = session_of_one(GuardMode::kBlock);
  EXPECT_EQ(caller("call_send"), kRefused);
  guard_exempt("libnamed_");
  EXPECT_EQ(caller("call_send"), kRefused);
  EXPECT_EQ(other("call_send"), kDone);
  EXPECT_TRUE(session.close().ok());
}

// A jump shows the address to which the function before it returns. So a module
// that may call is refused when its jump was called by one that may not; and
// whoever may call vouches for what it calls.
TEST_F(GuardCallers, AJumpCountsAsACallOfTheCallersCaller) {
  const Loaded jumps(TAIL_CALLER), network_jumps(NETWORK_TAIL_CALLER),
      caller(CALLER), network(NETWORK_CALLER);
  const auto through = [](const Loaded& outer, const Loaded& inner) {
    using Through = long (*)(void*);
    return reinterpret_cast<Through>(dlsym(outer.handle, "call_through"))(
        dlsym(inner.handle, "call_send"));
  };
  const Session session = session_of_one(GuardMode::kBlock);
  EXPECT_EQ(jumps("call_send"), kRefused);
  EXPECT_EQ(through(caller, jumps), kRefused);
  EXPECT_EQ(network_jumps("call_send"), kRefused) << "it errs by refusing";
  EXPECT_EQ(through(caller, network_jumps), kRefused);
  EXPECT_EQ(through(network, network_jumps), kDone);
  EXPECT_EQ(through(network, jumps), kDone);
  EXPECT_EQ(through(network, caller), kRefused) << "a call and no jump";
  EXPECT_TRUE(session.close().ok());
}

// A plugin, and the library below it that nobody has named.
TEST_F(GuardCallers, EnginesBelowAPluginPassInsideDistwrap) {
  const auto session = Session::create({.backend = "below",
                                        .rank = 0,
                                        .world_size = 1,
                                        .guard = GuardMode::kRequire});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<float> x(4, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        all_reduce(TensorView(x), ReduceOp::kSum, {.group = session->world()})
            .ok());
    EXPECT_EQ(call_send(), kRefused) << "the call has ended";
  }
  const auto split = new_group({.ranks = std::vector<int>{0}});
  const Loaded below(BELOW_ENGINE);
  EXPECT_EQ(below("below_send"), kRefused) << "outside of distwrap";
  EXPECT_GT(fake_engine_calls, 8);
  EXPECT_TRUE(session->close().ok());
  EXPECT_EQ(below("below_send"), kDone);
}

TEST_F(GuardCallers, MpisErrorIsThatOfTheLibraryWithTheFunction) {
  const Loaded caller(CALLER);  // the module has an Open MPI
  const auto barrier = reinterpret_cast<int (*)(long, long, long)>(
      dlsym(RTLD_DEFAULT, "MPI_Barrier"));
  EXPECT_EQ(caller("call_local_mpi"), 99);
  const Session session = session_of_one(GuardMode::kBlock);
  EXPECT_EQ(caller("call_local_mpi"), 16);
  EXPECT_EQ(barrier(1, 2, 3), 15);
  EXPECT_TRUE(session.close().ok());
}

// The lines that a call writes.
std::vector<std::string> lines_of(const std::function<void()>& call) {
  testing::internal::CaptureStderr();
  call();
  std::string text = testing::internal::GetCapturedStderr();
  std::vector<std::string> lines;
  for (size_t end; (end = text.find('\n')) != std::string::npos;
       text.erase(0, end + 1))
    lines.push_back(text.substr(0, end));
  return lines;
}

TEST_F(GuardCallers, EachFunctionAndModuleIsToldOnce) {
  const Loaded caller(THIRD_CALLER), other(WARNED_CALLER);
  const Session session = session_of_one(GuardMode::kWarn);
  const auto lines = lines_of([&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(other("call_send"), kDone);
      EXPECT_EQ(other("call_local"), 88);
    }
  });
  ASSERT_EQ(lines.size(), 2u) << testing::PrintToString(lines);
  EXPECT_THAT(lines[0], HasSubstr("kDirectCall: ncclSend was called by "));
  EXPECT_THAT(lines[0], HasSubstr("libwarned_guard_caller.so"));
  EXPECT_THAT(lines[0], HasSubstr("call distwrap_send instead"));
  EXPECT_THAT(lines[1], HasSubstr("ncclWaitSignal"));
  EXPECT_EQ(lines_of([&] { caller("call_send"); }).size(), 1u)
      << "another module";
  EXPECT_TRUE(session.close().ok());
}

}  // namespace
}  // namespace distwrap
