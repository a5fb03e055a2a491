// A process that may have few threads, or little address space: from none at
// all to enough, a start and all kinds of calls either work or end with an
// error that names the limit. Nothing ends the process, and nothing hangs.
#include "distwrap/abi/note.h"
#include "host_backends.h"
#include "in_child.h"
#include "limited_ranks.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

using testing::Reached;
using testing::run_in_child;
using testing::run_limited;

constexpr int kTrySeconds = 30;
// The children return these, or 1.
constexpr int kWorks = 0, kRefused = 2;

struct Case {
  std::string backend;
  int ranks;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.ranks << " over " << c.backend;
}

// A user that has no processes, of this test.
uid_t unused_user() { return 1'000'000 + static_cast<uid_t>(getpid()); }

int threads_of_process() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == "Threads:") {
      int threads = 0;
      file >> threads;
      return threads;
    }
  return 0;
}

// The ranks' answers, as a code for the parent.
int judge(const Case& c, const std::vector<Reached>& all, const char* limit) {
  bool works = true, names_limit = false;
  for (const Reached& one : all) {
    if (one.step.empty()) continue;
    works = false;
    if (!testing::may_say(one.status, c.backend, c.ranks == 1)) {
      std::cerr << one.step << ": " << one.status << std::endl;
      return 1;
    }
    const auto info = error_info(one.status);
    if (info.has_value() && info->reason == Reason::kBackendFailed)
      names_limit = true;  // an engine's own, which hides it
    if (absl::StrContains(one.status.message(), limit)) names_limit = true;
  }
  if (works) return kWorks;
  if (!names_limit) {
    for (const Reached& one : all)
      std::cerr << "no rank names the limit: " << one.step << ": " << one.status
                << std::endl;
    return 1;
  }
  return kRefused;
}

int run_with_threads(const Case& c, int threads) {
  rlimit before = {};
  getrlimit(RLIMIT_NPROC, &before);
  const auto all = run_limited(
      c.backend, c.ranks,
      [&] {
        const auto most = static_cast<rlim_t>(threads_of_process() + threads);
        const rlimit few = {most, before.rlim_max};
        const uid_t user = unused_user();
        if (setrlimit(RLIMIT_NPROC, &few) != 0 ||
            setresuid(user, user, user) != 0)
          _exit(3);
      },
      [&] { setrlimit(RLIMIT_NPROC, &before); });
  return judge(c, all, "ulimit -u");
}

uint64_t address_space() {
  unsigned long long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%llu", &pages) != 1) pages = 0;
  if (file != nullptr) std::fclose(file);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

int run_with_memory(const Case& c, uint64_t bytes) {
  rlimit before = {};
  getrlimit(RLIMIT_AS, &before);
  const auto all = run_limited(
      c.backend, c.ranks,
      [&] {
        const rlimit little = {address_space() + bytes, before.rlim_max};
        setrlimit(RLIMIT_AS, &little);
      },
      [&] { setrlimit(RLIMIT_AS, &before); });
  return judge(c, all, "");
}

class Limits : public ::testing::TestWithParam<Case> {};

TEST_P(Limits, OfThreads) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  constexpr int kMost = 64;
  std::string ended = "none";
  int threads = 0, refused = 0;
  for (; threads < kMost && !ended.empty(); ++threads) {
    ended = run_in_child(kTrySeconds,
                         [&] { return run_with_threads(GetParam(), threads); });
    if (ended == absl::StrCat("the child returned ", kRefused))
      ++refused;
    else
      ASSERT_EQ(ended, "") << "with " << threads << " threads more";
  }
  EXPECT_EQ(ended, "") << "it never works";
  EXPECT_GT(refused, 0);
}

TEST_P(Limits, OfAddressSpace) {
  if (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "a sanitizer needs all of the address space";
  constexpr uint64_t kStep = uint64_t{1} << 20;
  const auto run = [&](uint64_t bytes) {
    return run_in_child(kTrySeconds,
                        [&] { return run_with_memory(GetParam(), bytes); });
  };
  uint64_t enough = kStep;
  while (enough < (uint64_t{1} << 34) && !run(enough).empty()) enough *= 2;
  int refused = 0;
  for (uint64_t bytes = 0; bytes < enough;
       bytes += std::max(kStep / 4, enough / 48)) {
    const std::string ended = run(bytes);
    if (ended.empty()) continue;
    ++refused;
    EXPECT_EQ(ended, absl::StrCat("the child returned ", kRefused))
        << "with " << bytes << " bytes more";
  }
  EXPECT_GT(refused, 0);
}

std::vector<Case> cases() {
  std::vector<Case> all = {{"loopback", 1}};
  for (const char* backend : testing::host_backends())
    for (const int ranks : {1, 2}) all.push_back({backend, ranks});
  return all;
}

INSTANTIATE_TEST_SUITE_P(, Limits, ::testing::ValuesIn(cases()),
                         [](const auto& one) {
                           return absl::StrCat(one.param.backend, "_",
                                               one.param.ranks);
                         });

}  // namespace
}  // namespace distwrap
