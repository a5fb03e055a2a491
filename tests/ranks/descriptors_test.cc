// A rank whose table of file descriptors is nearly full: at the start, when a
// group is made, when calls are made; with none left, one left, and so on until
// there are enough. Every rank learns of the failure at once, by an error that
// names the cause, and everything that exists already continues to work.
#include "base/descriptor.h"
#include "distwrap/abi/note.h"
#include "distwrap/distwrap.h"
#include "distwrap/store.h"
#include "store/server_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

constexpr int kRanks = 2;
constexpr int kBroken = 255;  // ends a rank that saw something else wrong

// Takes all descriptors but some, while the object lives.
class FullTable {
 public:
  explicit FullTable(size_t left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low = {256, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    for (;;) {
      base::Descriptor one(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!one.is_open()) break;
      taken_.push_back(std::move(one));
    }
    taken_.resize(taken_.size() - std::min(left, taken_.size()));
  }
  // The number of descriptors that can be opened.
  size_t left() const {
    std::vector<base::Descriptor> more;
    for (;;) {
      base::Descriptor one(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!one.is_open()) return more.size();
      more.push_back(std::move(one));
    }
  }
  ~FullTable() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
  std::vector<base::Descriptor> taken_;
};

enum class When { kStart, kGroup, kCalls };

struct Case {
  std::string backend;
  When when;
  int full_rank;
  size_t left;  // free descriptors of that rank
};

void require(bool holds, const absl::Status& status) {
  if (holds) return;
  std::cerr << status << std::endl;
  _exit(kBroken);
}

absl::Status sum_over(const Group& group) {
  std::vector<int64_t> x(1000, 1);
  const absl::StatusOr<Work> work =
      all_reduce(TensorView(x), ReduceOp::kSum, {.group = group});
  if (work.ok()) {
    require(x == std::vector<int64_t>(x.size(), kRanks),
            absl::DataLossError("a wrong sum"));
  }
  return work.status();
}

// The body of a rank: returns the failure while the table was full.
absl::Status run(const Case& c, int rank, const std::string& address) {
  const auto store =
      Store::connect(address, Deadline::after(absl::Seconds(60)));
  require(store.ok(), store.status());
  InitOptions options{.backend = c.backend,
                      .rank = rank,
                      .world_size = kRanks,
                      .store = *store,
                      .timeout = absl::Seconds(60),
                      .init_timeout = absl::Seconds(60)};
  std::unique_ptr<FullTable> full;
  const auto fill = [&] {
    if (rank == c.full_rank) full = std::make_unique<FullTable>(c.left);
  };
  if (c.when == When::kStart) {
    fill();
    const absl::Status first = Session::create(options).status();
    if (first.ok()) return first;
    // The call succeeds once there are enough.
    full.reset();
    const absl::Status alone =
        Session::create({.rank = 0, .world_size = 1}).status();
    require(alone.ok(), alone);
    return first;
  }
  const absl::StatusOr<Session> session = Session::create(options);
  require(session.ok(), session.status());
  bind_session(*session);
  fill();
  absl::Status status;
  if (c.when == When::kGroup) {
    const auto group = split_group({.split_ranks = {{0, 1}}});
    status = group.status();
    const absl::Status used = group.ok() ? sum_over(*group) : absl::OkStatus();
    require(used.ok(), used);
    // The world is unharmed.
    const absl::Status others = sum_over(session->world());
    require(others.ok(), others);
    full.reset();
    const auto again = split_group({.split_ranks = {{0, 1}}});
    require(again.ok(), again.status());
    const absl::Status summed = sum_over(*again);
    require(summed.ok(), summed);
  } else {
    for (int times = 0; times < 3; ++times)
      if (status.ok()) status = sum_over(session->world());
  }
  return status;
}

// A process that meets the store and uses it: returns the first failure.
absl::Status meet_store(size_t left, const std::string& address) {
  const auto use = [&] {
    const auto store =
        Store::connect(address, Deadline::after(absl::Seconds(60)));
    return store.ok()
               ? (*store)->set("key", "", Deadline::after(absl::Seconds(60)))
               : store.status();
  };
  absl::Status first;
  {
    const FullTable full(left);
    first = use();
    require(full.left() == left, absl::InternalError("something is left open"));
  }
  const absl::Status again = use();
  require(again.ok(), again);
  return first;
}

// Runs the two ranks as processes; returns the reasons of their errors, by
// rank.
std::array<int, kRanks> run_both(const Case& c, const std::string& folder) {
  std::array<pid_t, kRanks> children = {};
  const std::string path = folder + "/store";
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      const absl::Status status = run(c, rank, "unix:" + path);
      _exit(static_cast<int>(error_reason(status)));
    }
    children[static_cast<size_t>(rank)] = child;
  }
  const auto server = store::ServerThread::start(path);
  EXPECT_TRUE(server.ok()) << server.status();
  std::array<int, kRanks> reasons = {};
  for (size_t rank = 0; rank < kRanks; ++rank) {
    int ended = 0;
    EXPECT_EQ(waitpid(children[rank], &ended, 0), children[rank]);
    EXPECT_TRUE(WIFEXITED(ended)) << "signal " << WTERMSIG(ended);
    reasons[rank] = WEXITSTATUS(ended);
  }
  return reasons;
}

class Descriptors : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (DW_SANITIZER != DW_SANITIZER_NONE)
      GTEST_SKIP() << "a sanitizer needs descriptors to look at objects, and "
                      "takes those that it cannot look at for broken";
    std::string pattern = ::testing::TempDir() + "/descriptorsXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The number of descriptors that this rank needs.
  size_t needed(When when, int full_rank) {
    constexpr size_t kMost = 100;
    constexpr int kWell = static_cast<int>(Reason::kNone);
    for (size_t left = 0; left < kMost; ++left) {
      const auto reasons =
          run_both({GetParam(), when, full_rank, left}, folder_);
      if (reasons == std::array{kWell, kWell}) return left;
      EXPECT_EQ(reasons[static_cast<size_t>(full_rank)],
                static_cast<int>(Reason::kResourceLimit))
          << left << " left";
      // The group need not have been built there yet, but no rank may wait in
      // vain.
      for (const int reason : reasons)
        EXPECT_TRUE(reason != static_cast<int>(Reason::kTimedOut) &&
                    reason != kBroken)
            << left << " left: " << reason;
    }
    return kMost;
  }

  std::string folder_;
};

TEST_P(Descriptors, ThatRunOutWhenTheStoreIsMetAreNamed) {
  const std::string path = folder_ + "/store";
  int reason = static_cast<int>(Reason::kResourceLimit);
  size_t left = 0;
  for (; reason != static_cast<int>(Reason::kNone); ++left) {
    ASSERT_EQ(reason, static_cast<int>(Reason::kResourceLimit));
    ASSERT_LT(left, 10u);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      _exit(static_cast<int>(error_reason(meet_store(left, "unix:" + path))));
    const auto server = store::ServerThread::start(path);
    ASSERT_TRUE(server.ok()) << server.status();
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFEXITED(ended)) << "signal " << WTERMSIG(ended);
    reason = WEXITSTATUS(ended);
  }
  EXPECT_GT(left, 1u);  // not with none
}

TEST_P(Descriptors, ThatRunOutAtTheStartAreNamed) {
  for (const int full_rank : {0, 1}) {
    const size_t enough = needed(When::kStart, full_rank);
    EXPECT_GT(enough, 3u);
    EXPECT_LT(enough, 40u);
  }
}

TEST_P(Descriptors, ThatRunOutInAGroupAreNamedAndHarmNoOther) {
  for (const int full_rank : {0, 1})
    EXPECT_LT(needed(When::kGroup, full_rank), 40u);
}

TEST_P(Descriptors, AreNotNeededByCalls) {
  for (const int full_rank : {0, 1})
    EXPECT_EQ(needed(When::kCalls, full_rank), 0u);
}

INSTANTIATE_TEST_SUITE_P(Over, Descriptors, ::testing::Values("shm"),
                         [](const auto& over) { return over.param; });

}  // namespace
}  // namespace distwrap
