// Random sessions, scopes, modules and calls, beside a model of the guard.
//
// GUARD_SEEDS sets how many seeds are tried; a failure names its own, which
// GUARD_SEED repeats.
#include "guarded.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdlib.h>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

// A thread that does one thing after the other and is waited for.
class Helper {
 public:
  Helper() : thread_([this] { run(); }) {}
  ~Helper() {
    call(nullptr);
    thread_.join();
  }
  void call(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    has_work_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !has_work_; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (bool stop = false; !stop;) {
      changed_.wait(lock, [this] { return has_work_; });
      stop = work_ == nullptr;
      if (!stop) work_();
      has_work_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool has_work_ = false;
  std::thread thread_;  // starts when the rest is there
};

constexpr size_t kThreads = 3, kModules = 2;
constexpr const char* kFiles[kModules] = {CALLER, NETWORK_CALLER};

// The guard as it should be.
struct Model {
  std::vector<GuardMode> sessions;
  size_t scopes[kThreads] = {};
  uint64_t refused = 0;

  GuardMode mode() const {
    return sessions.empty()
               ? GuardMode::kOff
               : *std::max_element(sessions.begin(), sessions.end());
  }
  long call(size_t thread, bool is_exempt) {
    if (mode() == GuardMode::kOff || scopes[thread] > 0 || is_exempt)
      return kDone;
    ++refused;
    return mode() == GuardMode::kWarn ? kDone : kRefused;
  }
};

uint64_t refusals(const GuardStatus& status = guard_status()) {
  uint64_t sum = 0;
  for (const GuardStatus::Function& one : status.refusals) sum += one.refused;
  return sum;
}

class GuardModel : public Guard {
 protected:
  void run(unsigned seed, std::vector<std::unique_ptr<Helper>>& threads) {
    SCOPED_TRACE(testing::Message() << "GUARD_SEED=" << seed);
    std::mt19937 random(seed);
    const auto pick = [&](size_t count) { return random() % count; };
    Model model;
    std::vector<Session> sessions;
    std::optional<Loaded> modules[kModules];
    const uint64_t before = refusals();
    const auto close = [&](size_t at) {
      EXPECT_TRUE(sessions[at].close().ok());
      sessions.erase(sessions.begin() + static_cast<ptrdiff_t>(at));
      model.sessions.erase(model.sessions.begin() + static_cast<ptrdiff_t>(at));
    };
    const auto leave = [&](size_t thread) {
      threads[thread]->call(
          [&] { EXPECT_EQ(guard_leave().ok(), model.scopes[thread] > 0); });
      if (model.scopes[thread] > 0) --model.scopes[thread];
    };
    for (int step = 0; step < 40 && !HasFailure(); ++step) {
      const size_t thread = pick(kThreads), module = pick(kModules);
      const auto mode = static_cast<GuardMode>(pick(4));
      switch (pick(10)) {
        case 0:
          if (sessions.size() == 4) break;
          sessions.push_back(session_of_one(mode));
          model.sessions.push_back(mode);
          break;
        case 1:
          if (!sessions.empty()) close(pick(sessions.size()));
          break;
        case 2:
          EXPECT_FALSE(Session::create({.backend = "nobody",
                                        .rank = 0,
                                        .world_size = 1,
                                        .guard = mode})
                           .ok());
          break;
        case 3:
          threads[thread]->call([] { guard_enter("a step"); });
          ++model.scopes[thread];
          break;
        case 4:
          leave(thread);
          break;
        case 5:
          if (modules[module].has_value())
            modules[module].reset();
          else
            modules[module].emplace(kFiles[module]);
          break;
        default: {
          const bool by_module = modules[module].has_value() && pick(2) == 0;
          const long expected = model.call(thread, by_module && module == 1);
          threads[thread]->call([&] {
            EXPECT_EQ(by_module ? (*modules[module])("call_send") : call_send(),
                      expected)
                << "step " << step;
          });
        }
      }
      const GuardStatus status = guard_status();
      EXPECT_EQ(status.mode, model.mode());
      EXPECT_EQ(status.scopes.size(),
                model.scopes[0] + model.scopes[1] + model.scopes[2]);
      EXPECT_EQ(refusals(status) - before, model.refused);
    }
    while (!sessions.empty()) close(0);
    for (size_t thread = 0; thread < kThreads; ++thread)
      while (model.scopes[thread] > 0) leave(thread);
    EXPECT_EQ(guard_status().mode, GuardMode::kOff);
    EXPECT_EQ(call_send(), kDone);
  }
};

unsigned setting(const char* name, unsigned otherwise) {
  const char* const text = getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(atoi(text));
}

TEST_F(GuardModel, RandomSessionsScopesAndCalls) {
  std::vector<std::unique_ptr<Helper>> threads;
  while (threads.size() < kThreads)
    threads.push_back(std::make_unique<Helper>());
  const unsigned first = setting("GUARD_SEED", 0);
  const unsigned count =
      getenv("GUARD_SEED") != nullptr ? 1 : setting("GUARD_SEEDS", 200);
  for (unsigned seed = first; seed < first + count && !HasFailure(); ++seed)
    run(seed, threads);
}

}  // namespace
}  // namespace distwrap
