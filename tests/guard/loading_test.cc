// Every way in which a program comes to an engine and to the module that calls
// it, and the ways that the door does not see.
#include "guarded.h"

#include <gmock/gmock.h>

#include <link.h>
#include <stdio.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct Engine {
  virtual ~Engine() = default;
  virtual long send() = 0;
};
extern "C" Engine* engine_object();

namespace distwrap {
namespace {

class GuardLoading : public Guard {};

TEST_F(GuardLoading, ModulesByDlopenLocalAndGlobal) {
// The runtime of ThreadSanitizer allows no deep binding.
#ifdef __SANITIZE_THREAD__
  constexpr int kFlags[] = {RTLD_LOCAL, RTLD_GLOBAL};
#else
  constexpr int kFlags[] = {RTLD_LOCAL, RTLD_GLOBAL,
                            RTLD_LOCAL | RTLD_DEEPBIND};
#endif
  for (const int flags : kFlags)
    for (int i = 0; i < 10; ++i) {
      const Loaded caller(CALLER, flags);
      // A module that is bound to its own libraries first never comes here.
      const bool deep = (flags & RTLD_DEEPBIND) != 0;
      EXPECT_EQ(caller("call_local"), 88);
      const Session session = session_of_one(GuardMode::kBlock);
      EXPECT_EQ(caller("call_local"), deep ? 88 : kRefused);
      EXPECT_EQ(caller("call_send"), kRefused);
      {
        const GuardAllow allow("a test");
        EXPECT_EQ(caller("call_local"), 88);
        EXPECT_EQ(caller("call_send"), kDone);
      }
      EXPECT_TRUE(session.close().ok());
    }
}

// The first executable byte of a loaded module.
char* base_of(const Loaded& module) {
  link_map* map = nullptr;
  EXPECT_EQ(dlinfo(module.handle, RTLD_DI_LINKMAP, &map), 0);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the loader
  return reinterpret_cast<char*>(map->l_addr);
}

TEST_F(GuardLoading, AModuleThatComesBackElsewhere) {
  const Session session = session_of_one(GuardMode::kBlock);
  char* before = nullptr;
  {
    const Loaded exempt(NETWORK_CALLER);
    before = base_of(exempt);
    EXPECT_EQ(exempt("call_send"), kDone);
  }
  // A module that may not call takes the place.
  {
    const Loaded caller(CALLER);
    EXPECT_EQ(base_of(caller), before) << "the loader reuses the place";
    EXPECT_EQ(caller("call_send"), kRefused);
    const Loaded exempt(NETWORK_CALLER);
    EXPECT_NE(base_of(exempt), before);
    EXPECT_EQ(exempt("call_send"), kDone);
    EXPECT_EQ(caller("call_send"), kRefused);
  }
  EXPECT_TRUE(session.close().ok());
}

TEST_F(GuardLoading, CallsThatTheDoorDoesNotSee) {
  const Loaded engine(FAKE_ENGINES);
  const Session session = session_of_one(GuardMode::kBlock);
  using Call = long (*)(long, long, long);
  const auto by_handle =
      reinterpret_cast<Call>(dlsym(engine.handle, "ncclSend"));
  EXPECT_EQ(by_handle(1, 2, 3), kDone) << "dlsym in the library";
  const auto next = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, "ncclSend"));
  EXPECT_EQ(next(1, 2, 3), kRefused) << "dlsym in the order of search";
  EXPECT_EQ(engine_object()->send(), kDone) << "a virtual method";
  EXPECT_TRUE(session.close().ok());
}

// The number of files and threads that a program has.
std::string shell(const std::string& environment) {
  const std::string line =
      "env " + environment + " ls /proc/self/fd /proc/self/task | wc -l";
  FILE* const pipe = popen(line.c_str(), "r");
  char text[32] = "";
  if (fgets(text, sizeof text, pipe) == nullptr) text[0] = '\0';
  pclose(pipe);
  return text;
}

TEST_F(GuardLoading, AProcessWithTheDoorHasNoOtherThreadOrFile) {
  const std::string with_door = shell("X=1");
  EXPECT_FALSE(with_door.empty());
  EXPECT_EQ(with_door, shell("-u LD_PRELOAD"));
}

TEST_F(GuardLoading, AStaticCopyIsNotSeen) {
  const pid_t child = fork();
  if (child == 0) execl(STATIC_COPY, STATIC_COPY, nullptr);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace distwrap
