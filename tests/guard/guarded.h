// Common to the tests of the door: a session, modules that are loaded for a
// test, and calls of a fake engine.
#ifndef DISTWRAP_TESTS_GUARD_GUARDED_H_
#define DISTWRAP_TESTS_GUARD_GUARDED_H_

#include "distwrap/distwrap.h"
#include "distwrap/guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <dlfcn.h>

extern "C" {
extern std::atomic<int> fake_engine_calls;
long ncclSend(long, long, long);
long engine_calls_itself();
}

namespace distwrap {

// A call of the fake engine that passes, and one that is refused.
constexpr long kDone = 77, kRefused = 5;

inline Session session_of_one(GuardMode mode) {
  auto made = Session::create({.rank = 0, .world_size = 1, .guard = mode});
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : Session();
}

// From this program itself.
inline long call_send() {
  const long result = ncclSend(1, 2, 3);
  return result + 0;
}

// A module that is loaded for a test.
struct Loaded {
  void* handle;
  explicit Loaded(const char* file, int flags = RTLD_LOCAL)
      : handle(dlopen(file, RTLD_NOW | flags)) {
    EXPECT_NE(handle, nullptr) << dlerror();
  }
  ~Loaded() { dlclose(handle); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  long operator()(const char* name) const {
    return reinterpret_cast<long (*)()>(dlsym(handle, name))();
  }
};

class Guard : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(guard_status().door, "") << "the door is not preloaded";
    fake_engine_calls = 0;
  }
};

}  // namespace distwrap

#endif  // DISTWRAP_TESTS_GUARD_GUARDED_H_
