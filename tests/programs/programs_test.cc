// Random programs on ranks that are threads: the results are those of the
// program, in whatever order ranks proceed.
//
// A failure prints the program and how to repeat it: PROGRAM_SEED=n runs that
// program alone, PROGRAMS=n sets the number of programs.
#include "host_backends.h"
#include "player.h"
#include "ranks/rank_threads.h"

#include <absl/strings/numbers.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string>

namespace distwrap::programs {
namespace {

constexpr int kMostRanks = 5, kSteps = 60;

// The number in an environment variable.
uint64_t number(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

void run(const Program& program, const std::string& backend) {
  std::mutex mutex;
  std::string wrong;
  distwrap::testing::run_ranks(
      program.ranks, {.backend = backend, .timeout = absl::Seconds(60)},
      [&](Session& session) {
        bind_session(session);
        const std::string mine = Player(program, session, true).play();
        bind_session({});
        const std::lock_guard<std::mutex> lock(mutex);
        if (!mine.empty()) wrong += mine + "\n";
      });
  EXPECT_EQ(wrong, "") << program.text()
                       << "repeat: PROGRAM_SEED=" << program.seed
                       << " programs_test";
}

void run_many(const std::string& backend, uint64_t first, uint64_t count) {
  if (std::getenv("PROGRAM_SEED") != nullptr) {
    first = number("PROGRAM_SEED", first);
    count = 1;
  }
  count = number("PROGRAMS", count);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    run(make_program(seed, kMostRanks, kSteps), backend);
    if (::testing::Test::HasFailure()) return;
  }
}

class Programs : public ::testing::TestWithParam<const char*> {};

TEST_P(Programs, ComeOutRight) { run_many(GetParam(), 1, 30); }

INSTANTIATE_TEST_SUITE_P(Backends, Programs,
                         ::testing::ValuesIn(testing::host_backends()),
                         testing::name_of_backend);

}  // namespace
}  // namespace distwrap::programs
