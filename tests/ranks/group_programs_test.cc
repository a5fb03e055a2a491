// Random programs of splits, new groups, operations and ends, which every rank
// runs as a thread. A program depends only on its seed:
//
//   GROUP_PROGRAM_SEED=17 GROUP_PROGRAMS=1 group_programs_test
#include "distwrap/distwrap.h"
#include "ranks/hub_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace distwrap {
namespace {

// One group of a program, as all ranks should see it.
struct Model {
  std::vector<int> members;  // ranks of the world
  int parent = -1;
  bool alive = true;
};

int from_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Runs a program on one rank. Random choices do not depend on the rank, so all
// ranks make the same ones.
class Program {
 public:
  Program(unsigned seed, const Session& session, bool messages)
      : random_(seed),
        me_(session.rank()),
        size_(session.world_size()),
        messages_(messages) {
    std::vector<int> all(static_cast<size_t>(size_));
    std::iota(all.begin(), all.end(), 0);
    models_ = {{all, -1, true}};
    handles_ = {session.world()};
  }

  void run(int steps) {
    for (step_ = 0; step_ < steps && !::testing::Test::HasFatalFailure();
         ++step_) {
      switch (draw(6)) {
        case 0:
        case 1:
          split();
          break;
        case 2:
          make();
          break;
        case 3:
          end_some();
          break;
        default:
          operate(pick());
      }
    }
    for (size_t g = 0; g < models_.size(); ++g) operate(static_cast<int>(g));
  }

 private:
  int draw(int n) {
    return static_cast<int>(random_() % static_cast<unsigned>(n));
  }

  int pick() {
    int group;
    do group = draw(static_cast<int>(models_.size()));
    while (!models_[static_cast<size_t>(group)].alive);
    return group;
  }

  void enter(int parent, const std::vector<int>& members,
             const absl::StatusOr<Group>* mine) {
    models_.push_back({members, parent, true});
    handles_.emplace_back();
    if (!contains(members, me_)) return;
    ASSERT_TRUE(mine->ok()) << mine->status();
    ASSERT_TRUE(**mine) << "a member has no group";
    handles_.back() = **mine;
    EXPECT_EQ((*mine)->global_ranks(), members);
    EXPECT_EQ((*mine)->global_ranks()[static_cast<size_t>((*mine)->rank())],
              me_);
  }

  void split() {
    const int parent = pick();
    const std::vector<int> members =
        models_[static_cast<size_t>(parent)].members;
    std::vector<int> order(members.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    // Some ranks are in no list.
    order.resize(static_cast<size_t>(1 + draw(static_cast<int>(order.size()))));
    SplitOptions options;
    for (const int rank : order) {
      if (options.split_ranks.empty() || draw(2) == 0)
        options.split_ranks.emplace_back();
      options.split_ranks.back().push_back(rank);
    }
    if (draw(2) == 0) options.group_desc = "named";
    absl::StatusOr<Group> mine = Group();
    if (contains(members, me_)) {
      options.parent = handles_[static_cast<size_t>(parent)];
      mine = split_group(options);
      ASSERT_TRUE(mine.ok()) << "step " << step_ << ": " << mine.status();
    }
    for (const std::vector<int>& list : options.split_ranks) {
      std::vector<int> global;
      for (const int rank : list)
        global.push_back(members[static_cast<size_t>(rank)]);
      enter(parent, global, &mine);
    }
  }

  void make() {
    NewGroupOptions options;
    std::vector<int> order(static_cast<size_t>(size_));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(static_cast<size_t>(1 + draw(size_)));
    options.ranks = order;
    options.use_local_synchronization = draw(2) == 0;
    std::sort(order.begin(), order.end());
    absl::StatusOr<Group> mine = Group();
    if (!options.use_local_synchronization || contains(order, me_)) {
      mine = new_group(options);
      ASSERT_TRUE(mine.ok()) << "step " << step_ << ": " << mine.status();
      EXPECT_EQ(static_cast<bool>(*mine), contains(order, me_));
    }
    enter(0, order, &mine);
  }

  // Each rank ends the groups in an order of its own.
  void end_some() {
    std::vector<int> ended;
    for (size_t g = 1; g < models_.size(); ++g)
      if (models_[g].alive && draw(3) == 0)
        ended.push_back(static_cast<int>(g));
    for (const int group : ended) bury(group);
    std::mt19937 own(static_cast<unsigned>(me_ + 31 * step_));
    std::shuffle(ended.begin(), ended.end(), own);
    for (const int group : ended) {
      const Group& handle = handles_[static_cast<size_t>(group)];
      if (!handle) continue;
      EXPECT_TRUE(destroy_process_group(handle).ok());
    }
  }

  void bury(int group) {
    models_[static_cast<size_t>(group)].alive = false;
    for (size_t g = 1; g < models_.size(); ++g)
      if (models_[g].alive && models_[g].parent == group)
        bury(static_cast<int>(g));
  }

  // A short or long reduction, and a message to the next rank.
  void operate(int group) {
    const Model& model = models_[static_cast<size_t>(group)];
    const Group& handle = handles_[static_cast<size_t>(group)];
    constexpr size_t kCounts[] = {2, 2, 300, 20'000};
    const size_t count = kCounts[draw(4)];
    if (!model.alive || !handle) return;
    std::vector<int64_t> x(count, step_);
    x[0] = me_ + 1;
    const absl::StatusOr<Work> work =
        all_reduce(TensorView(x), ReduceOp::kSum, {.group = handle});
    ASSERT_TRUE(work.ok()) << "step " << step_ << ": " << work.status();
    int64_t sum = 0;
    for (const int member : model.members) sum += member + 1;
    EXPECT_EQ(x[0], sum);
    EXPECT_EQ(x.back(), step_ * static_cast<int64_t>(model.members.size()));
    if (messages_) pass_on(handle, count);
  }

  void pass_on(const Group& handle, size_t count) {
    const int size = handle.size(), rank = handle.rank();
    if (size == 1) return;
    std::vector<int64_t> out(count, me_), in(count, -1);
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    const absl::StatusOr<Work> sent =
        isend(TensorView(out), Peer::group(next), 0, {.group = handle});
    ASSERT_TRUE(sent.ok()) << "step " << step_ << ": " << sent.status();
    const absl::Status got =
        recv(TensorView(in), Peer::group(last), 0, {.group = handle}).status();
    ASSERT_TRUE(got.ok()) << "step " << step_ << ": " << got;
    ASSERT_TRUE(sent->wait().ok()) << "step " << step_;
    const int64_t from = handle.global_ranks()[static_cast<size_t>(last)];
    EXPECT_EQ(in.front(), from);
    EXPECT_EQ(in.back(), from);
  }

  std::mt19937 random_;
  const int me_, size_;
  const bool messages_;  // messages in flight need a backend that ends them
                         // itself
  int step_ = 0;
  std::vector<Model> models_;
  std::vector<Group> handles_;  // empty: not a member
};

void run_programs(const std::string& backend, int first, int count, int steps) {
  const int seed = from_environment("GROUP_PROGRAM_SEED", first);
  count = from_environment("GROUP_PROGRAMS", count);
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    const auto now = static_cast<unsigned>(seed + i);
    testing::run_hub_ranks(
        2 + static_cast<int>(now % 4),
        {.backend = backend, .init_timeout = absl::Seconds(60)},
        [&](Session& session) {
          Program(now, session, backend != "perfect").run(steps);
        });
    EXPECT_FALSE(::testing::Test::HasFailure())
        << "repeat with GROUP_PROGRAM_SEED=" << now << " GROUP_PROGRAMS=1";
  }
}

TEST(GroupPrograms, OverAHub) { run_programs("perfect", 1, 300, 12); }
// The groups share their memory.
TEST(GroupPrograms, OverShm) { run_programs("shm", 3001, 40, 20); }
TEST(GroupPrograms, OverGloo) { run_programs("gloo", 7001, 4, 8); }
#ifdef DISTWRAP_HAS_UCX
TEST(GroupPrograms, OverUcx) { run_programs("ucx", 8001, 4, 8); }
#endif
// The test group_programs_thousands of the long set.
TEST(GroupPrograms, DISABLED_Thousands) {
  run_programs("perfect", 10001, 5000, 16);
}

}  // namespace
}  // namespace distwrap
