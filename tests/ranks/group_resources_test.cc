// The requests of groups to the store, and the resources that remain when
// groups end.
#include "distwrap/abi/note.h"
#include "distwrap/distwrap.h"
#include "ranks/counting_store.h"
#include "ranks/hub_ranks.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <malloc.h>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

using testing::CountingStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_hub_ranks;

const InitOptions kPerfect{.backend = "perfect",
                           .init_timeout = absl::Seconds(60)};
const InitOptions kGloo{.backend = "gloo", .init_timeout = absl::Seconds(60)};

int64_t sum_over(const Group& group, int64_t mine) {
  std::vector<int64_t> x = {mine};
  const absl::StatusOr<Work> work =
      all_reduce(TensorView(x), ReduceOp::kSum, {.group = group});
  EXPECT_TRUE(work.ok()) << work.status();
  return x[0];
}

int entries(const char* folder) {
  DIR* const dir = opendir(folder);
  int n = 0;
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

// The resources of the process and the store. Only one rank counts, since the
// ranks are threads and counting opens a descriptor.
struct Holdings {
  std::set<std::string> keys;
  int files = 0, threads = 0;

  static Holdings of(CountingStore& store) {
    return {store.keys(), entries("/proc/self/fd"), entries("/proc/self/task")};
  }
};

// Groups that their members did not end at the same time are destroyed soon
// afterwards.
void expect_again(CountingStore& store, const Holdings& before) {
  // A thread of each session may wait for other ranks.
  constexpr int kSessions = 2;
  const Deadline end = Deadline::after(absl::Seconds(60));
  Holdings now = Holdings::of(store);
  while ((now.keys != before.keys || now.files != before.files) &&
         !end.passed()) {
    absl::SleepFor(absl::Milliseconds(1));
    now = Holdings::of(store);
  }
  EXPECT_EQ(now.keys, before.keys);
  EXPECT_EQ(now.files, before.files);
  EXPECT_LE(now.threads, before.threads + kSessions);
}

// Lesson M4, and other resources that a group could leave.
void leaves_nothing(const InitOptions& options, int groups) {
  const auto store = std::make_shared<CountingStore>();
  run_hub_ranks(
      2, options,
      [&](Session& session) {
        const auto round = [&](int n) {
          for (int i = 0; i < n; ++i) {
            const auto group = split_group({.split_ranks = {{1, 0}}});
            ASSERT_TRUE(group.ok()) << group.status();
            EXPECT_EQ(sum_over(*group, 1), 2);
            ASSERT_TRUE(destroy_process_group(*group).ok());
          }
          EXPECT_EQ(sum_over({}, 1), 2);
        };
        Holdings before;
        EXPECT_EQ(sum_over({}, 1), 2);
        if (session.rank() == 0) before = Holdings::of(*store);
        EXPECT_EQ(sum_over({}, 1), 2);
        round(groups);
        if (session.rank() == 0) expect_again(*store, before);
        EXPECT_EQ(sum_over({}, 1), 2);
        EXPECT_THAT(session.world().children(), IsEmpty());
      },
      store, absl::Seconds(10));
}

TEST(GroupResources, AThousandLeaveNothing) { leaves_nothing(kPerfect, 1000); }
TEST(GroupResources, LeaveNothingOverGloo) { leaves_nothing(kGloo, 20); }

// With shared memory everything goes over the board.
TEST(GroupResources, OnOneHostNothingIsAskedOfTheStore) {
  const auto store = std::make_shared<CountingStore>();
  run_hub_ranks(
      3, {.init_timeout = absl::Seconds(60), .check = Check::kSignature},
      [&](Session& session) {
        EXPECT_EQ(sum_over({}, 1), 3);
        const size_t before = store->keys_asked();
        EXPECT_EQ(sum_over({}, 1), 3);
        for (int i = 0; i < 20; ++i) {
          const auto pair = split_group({.split_ranks = {{2, 0}, {1}}});
          ASSERT_TRUE(pair.ok()) << pair.status();
          EXPECT_EQ(sum_over(*pair, 1), session.rank() == 1 ? 1 : 2);
          const auto some = split_group_by_color(session.rank() == 0 ? -1 : 4,
                                                 session.rank());
          ASSERT_TRUE(some.ok()) << some.status();
          const auto all = new_group();
          ASSERT_TRUE(all.ok()) << all.status();
          const auto again =
              split_group({.parent = *all, .split_ranks = {{2, 1, 0}}});
          ASSERT_TRUE(again.ok()) << again.status();
          EXPECT_EQ(sum_over(*again, 1), 3);
          ASSERT_TRUE(destroy_process_group(*all).ok());
          if (*some) {
            ASSERT_TRUE(destroy_process_group(*some).ok());
          }
          if (session.rank() != 1) {
            ASSERT_TRUE(destroy_process_group(*pair).ok());
          }
        }
        EXPECT_EQ(sum_over({}, 1), 3);
        EXPECT_EQ(store->keys_asked(), before);
        EXPECT_EQ(sum_over({}, 1), 3);
      },
      store, absl::Seconds(10));
}

int mappings() {
  std::ifstream maps("/proc/self/maps");
  int n = 0;
  for (std::string line; std::getline(maps, line);)
    n += line.find("memfd:") != std::string::npos ? 1 : 0;
  return n;
}

// A group over shared memory takes its memory from its parent, and so do the
// groups split from it: it needs no descriptor, thread or mapping, even while
// it lives.
TEST(GroupResources, OnOneHostGroupsHaveTheMemoryOfTheirParent) {
  run_hub_ranks(
      3, {.backend = "shm", .init_timeout = absl::Seconds(60)},
      [](Session& session) {
        std::vector<Group> groups;
        const auto grow = [&](int n) {
          for (int i = 0; i < n; ++i) {
            const auto all = split_group({.split_ranks = {{2, 0, 1}}});
            ASSERT_TRUE(all.ok()) << all.status();
            const auto pair =
                split_group({.parent = *all, .split_ranks = {{2, 0}, {1}}});
            ASSERT_TRUE(pair.ok()) << pair.status();
            EXPECT_EQ(sum_over(*all, 1), 3);
            EXPECT_EQ(sum_over(*pair, 1), pair->size());
            groups.push_back(*all);
          }
        };
        const auto held = [&] {
          EXPECT_EQ(sum_over({}, 1), 3);
          int all[3] = {};
          if (session.rank() == 0) {
            all[0] = entries("/proc/self/fd");
            all[1] = entries("/proc/self/task");
            all[2] = mappings();
          }
          EXPECT_EQ(sum_over({}, 1), 3);
          return std::vector<int>(all, all + 3);
        };
        grow(1);
        const std::vector<int> before = held();
        grow(20);
        EXPECT_EQ(held(), before);
        for (const Group& group : groups)
          ASSERT_TRUE(destroy_process_group(group).ok());
        groups.clear();
      },
      nullptr, absl::Seconds(10));
}

// If a rank waited for one that is busy ending another group, this would take
// the close barrier's time for each group, an hour.
TEST(GroupResources, RanksEndTheirGroupsInAnyOrder) {
  constexpr size_t kGroups = 12;
  const auto store = std::make_shared<CountingStore>();
  run_hub_ranks(
      2, kGloo,
      [&](Session& session) {
        Holdings before;
        EXPECT_EQ(sum_over({}, 1), 2);
        if (session.rank() == 0) before = Holdings::of(*store);
        EXPECT_EQ(sum_over({}, 1), 2);
        for (int round = 0; round < 3; ++round) {
          EXPECT_EQ(sum_over({}, 1), 2);
          std::vector<Group> groups;
          for (size_t i = 0; i < kGroups; ++i) {
            const auto group = split_group({.split_ranks = {{0, 1}}});
            ASSERT_TRUE(group.ok()) << group.status();
            EXPECT_EQ(sum_over(*group, 1), 2);
            groups.push_back(*group);
          }
          // One rank ends them forwards, the next backwards, the third the odd
          // ones first.
          if (session.rank() == 1) {
            if (round == 1)
              std::stable_partition(
                  groups.begin(), groups.end(),
                  [&](const Group& group) { return (group.uid() & 1) == 0; });
            else
              std::reverse(groups.begin(), groups.end());
          }
          for (const Group& group : groups)
            ASSERT_TRUE(destroy_process_group(group).ok());
        }
        EXPECT_EQ(sum_over({}, 1), 2);
        if (session.rank() == 0) expect_again(*store, before);
        EXPECT_EQ(sum_over({}, 1), 2);
      },
      store, absl::Hours(1));
}

// A descriptor of this process for the board's memory.
int board_memory() {
  for (int fd = 0; fd < 1024; ++fd) {
    char target[64] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (readlink(link.c_str(), target, sizeof target - 1) > 0 &&
        std::string(target).rfind("/memfd:distwrap board", 0) == 0)
      return fd;
  }
  return -1;
}

// The system refuses one rank the page on which it shows the group's calls: the
// rank reports it, and the others give up the group as well.
TEST(GroupResources, WithoutAPageOnTheBoardThereIsNoGroupAnywhere) {
  InitOptions options = kPerfect;
  options.check = Check::kSignature;
  std::atomic<int> out_of_memory{0}, told{0};
  run_hub_ranks(2, options, [&](Session& session) {
    static int board, copy;  // one for each rank
    EXPECT_EQ(sum_over({}, 1), 2);
    if (session.rank() == 0) {
      board = board_memory();
      copy = dup(board);
      const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
      ASSERT_GE(dup3(other, board, O_CLOEXEC), 0);
      close(other);
    }
    EXPECT_EQ(sum_over({}, 1), 2);
    const auto none = split_group({.split_ranks = {{0, 1}}});
    if (error_reason(none.status()) == Reason::kOutOfMemory) ++out_of_memory;
    if (error_reason(none.status()) == Reason::kAborted) {
      ++told;
      EXPECT_THAT(std::string(none.status().message()),
                  HasSubstr("no memory for the page"));
    }
    EXPECT_EQ(sum_over({}, 1), 2);
    if (session.rank() == 0) {
      dup3(copy, board, O_CLOEXEC);
      close(copy);
    }
    EXPECT_EQ(sum_over({}, 1), 2);
    const auto group = split_group({.split_ranks = {{0, 1}}});
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_EQ(sum_over(*group, 1), 2);
  });
  EXPECT_EQ(out_of_memory, 1);
  EXPECT_EQ(told, 1);
}

// One rank ends a group, the other ends it with the world.
TEST(GroupResources, TheWorldEndsWhileAGroupIsAwaited) {
  const auto store = std::make_shared<CountingStore>();
  run_hub_ranks(
      2, kGloo,
      [&](Session& session) {
        const auto outer = split_group({.split_ranks = {{0, 1}}});
        ASSERT_TRUE(outer.ok()) << outer.status();
        const auto inner =
            split_group({.parent = *outer, .split_ranks = {{0, 1}}});
        ASSERT_TRUE(inner.ok()) << inner.status();
        EXPECT_EQ(sum_over(*inner, 1), 2);
        if (session.rank() == 0) {
          ASSERT_TRUE(destroy_process_group(*inner).ok());
          ASSERT_TRUE(destroy_process_group(*outer).ok());
        }
      },
      store, absl::Seconds(60));
  EXPECT_THAT(store->keys(), ElementsAre("round")) << "of the next start";
}

// The bytes that the process has allocated.
size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(GroupResources, AThousandGroupsKeepNoMemory) {
  if (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "a sanitizer allocates in the C library's place";
  // For the two ranks together; a record of each group would be more.
  constexpr size_t kMostEach = 64;
  const auto store = Store::in_memory();
  run_hub_ranks(
      2, kPerfect,
      [&](Session& session) {
        const auto round = [&](int n) {
          for (int i = 0; i < n; ++i) {
            const auto group = split_group({.split_ranks = {{0, 1}}});
            ASSERT_TRUE(group.ok()) << group.status();
            ASSERT_TRUE(destroy_process_group(*group).ok());
            // Waits until the second rank has ended it as well.
            ASSERT_TRUE(barrier().ok());
          }
        };
        round(200);
        const size_t before = allocated();
        EXPECT_EQ(sum_over({}, 1), 2);
        round(1000);
        if (session.rank() == 0) {
          EXPECT_LE(allocated(), before + 1000 * kMostEach);
        }
        EXPECT_EQ(sum_over({}, 1), 2);
      },
      store, absl::Seconds(10));
}

// The keys in the requests of all ranks for a call that makes no group: the
// cost of the call itself.
size_t keys_asked(int ranks, const std::function<void(Session&)>& call) {
  const auto store = std::make_shared<CountingStore>();
  size_t before = 0, asked = 0;
  run_hub_ranks(
      ranks, kPerfect,
      [&](Session& session) {
        ASSERT_TRUE(barrier().ok());
        if (session.rank() == 0) before = store->keys_asked();
        ASSERT_TRUE(barrier().ok());
        call(session);
        ASSERT_TRUE(barrier().ok());
        if (session.rank() == 0) asked = store->keys_asked() - before;
        ASSERT_TRUE(barrier().ok());
      },
      store);
  return asked;
}

// Each rank requests a few keys, however many ranks there are. A rank that
// waits long writes its name, which takes two more.
TEST(GroupResources, MakingGroupsAsksTheStoreForAFewKeysARank) {
  for (const int ranks : {3, 16}) {
    const size_t n = static_cast<size_t>(ranks);
    const size_t by_color = keys_asked(ranks, [](Session&) {
      const auto none = split_group_by_color(-1, 0);
      EXPECT_TRUE(none.ok() && !*none) << none.status();
    });
    EXPECT_LE(by_color, 12 * n);
    const size_t outside = keys_asked(ranks, [](Session&) {
      const auto alone = split_group({.split_ranks = {{0}}});
      EXPECT_TRUE(alone.ok()) << alone.status();
    });
    // Rank 0 builds its own group by itself.
    EXPECT_LE(outside, 8 * n + 20);
  }
}

}  // namespace
}  // namespace distwrap
