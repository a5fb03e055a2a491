// Ranks to which no rank sends are asleep, however many they are.
#include "ranks/window_ranks.h"

#include <absl/time/clock.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace distwrap::testing {
namespace {

class IdleWindows : public WindowRanks {};
DISTWRAP_WINDOW_BACKENDS(IdleWindows);

// How often the threads of this process have gone to sleep.
int64_t sleeps() {
  constexpr char kKey[] = "voluntary_ctxt_switches:";
  int64_t all = 0;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind(kKey, 0) == 0) all += std::stoll(line.substr(sizeof kKey));
  }
  return all;
}

TEST_P(IdleWindows, NobodyWakesUp) {
  run(4, [](int me) {
    const Window window = make_window({.count = 16});
    std::vector<uint8_t> x(8, 1);
    expect_ok(window.put_signal(TensorView(x), Peer::group((me + 1) % 4), 0, 0,
                                1, SignalHow::kSet));
    expect_ok(window.wait_signal(0, Compare::kEq, 1));
    expect_ok(window.flush());
    expect_ok(barrier());
    // One rank counts while the others sleep.
    absl::SleepFor(absl::Milliseconds(100));
    const int64_t before = sleeps();
    absl::SleepFor(absl::Milliseconds(500));
    const int64_t after = sleeps();
    // Gloo's threads turn a hundred times a second each, two for each rank; a
    // thread that polled every peer would wake up ten thousand times.
    if (me == 0) {
      EXPECT_LT(after - before, 3000);
    }
    absl::SleepFor(absl::Milliseconds(100));
    expect_ok(barrier());
    expect_ok(window.destroy());
  });
}

}  // namespace
}  // namespace distwrap::testing
