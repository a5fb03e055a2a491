// News between hosts: two ranks, each as a process of another host would be,
// with a line of its own to one store.
#include "comm/host_news.h"

#include "base/log.h"
#include "base/mutex.h"
#include "comm/board/host_memory.h"
#include "store/run_directory.h"
#include "store/server_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(absl::Seconds(20)); }

// A group's ear.
class Heard final : public GroupBoard::Listener {
 public:
  void board_found(ErrorInfo found) override {
    base::MutexLock lock(mutex_);
    found_.push_back(std::move(found));
    changed_.notify_all();
  }
  void board_waits(GroupBoard::Stuck) override {}
  void board_tells(std::string) override {}
  void board_hears(absl::string_view text) override {
    base::MutexLock lock(mutex_);
    heard_.emplace_back(text);
    changed_.notify_all();
  }

  // The first text of another host; "" when there is none in time.
  std::string wait_for_text(Deadline deadline = soon()) {
    base::MutexLock lock(mutex_);
    while (heard_.empty() && changed_.wait_until(mutex_, deadline)) {
    }
    return heard_.empty() ? "" : heard_.front();
  }

  // The first finding; nullopt when there is none in time.
  std::optional<ErrorInfo> wait(Deadline deadline = soon()) {
    base::MutexLock lock(mutex_);
    while (found_.empty() && changed_.wait_until(mutex_, deadline)) {
    }
    return found_.empty() ? std::nullopt : std::optional(found_.front());
  }
  size_t times() {
    base::MutexLock lock(mutex_);
    return found_.size();
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<ErrorInfo> found_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> heard_ ABSL_GUARDED_BY(mutex_);
};

class HostNewsTest : public ::testing::Test {
 protected:
  HostNewsTest() {
    auto made = store::RunDirectory::make(base::Environment::of_process());
    EXPECT_TRUE(made.ok()) << made.status();
    directory_.emplace(*std::move(made));
    auto server = store::ServerThread::start(directory_->path() + "/store");
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::shared_ptr<store::ClientStore> connect() {
    bool hopeless = false;
    auto store = store::connect_to(
        *store::StorePlace::parse(server_->address()), soon(), &hopeless);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::shared_ptr<HostNews> join(int rank, std::vector<int> store_host = {0}) {
    return join_over(connect(), rank, std::move(store_host));
  }
  std::shared_ptr<HostNews> join_over(std::shared_ptr<store::ClientStore> store,
                                      int rank, std::vector<int> store_host,
                                      std::shared_ptr<Board> board = nullptr) {
    auto news = HostNews::open(std::move(store),
                               {.log = "news",
                                .rank = rank,
                                .host = "host" + std::to_string(rank),
                                .silence = absl::Seconds(20),
                                .watchdog = watchdog_,
                                .board = std::move(board),
                                .store_host = std::move(store_host)},
                               soon());
    EXPECT_TRUE(news.ok()) << news.status();
    return *std::move(news);
  }
  // The group of the world's ranks 3, 0, 2 and 1, in which rank r of the world
  // has another number.
  static std::shared_ptr<GroupNews> group(const std::shared_ptr<HostNews>& news,
                                          int rank, Heard& heard,
                                          uint64_t uid = 7) {
    auto made = GroupNews::open(news, {"dp", uid, rank, {3, 0, 2, 1}});
    made->tell(&heard);
    return made;
  }

  const std::shared_ptr<Watchdog> watchdog_ = *Watchdog::make();
  std::optional<store::RunDirectory> directory_;
  std::unique_ptr<store::ServerThread> server_;
};

TEST_F(HostNewsTest, ALostRankIsNamedInTheGroupsNumbers) {
  const auto here = join(0);
  auto there = join(3);
  Heard heard, other;
  const auto mine = group(here, 1, heard);
  // A group without the lost rank hears nothing.
  const auto without = GroupNews::open(here, {"tp", 8, 0, {0, 1}});
  without->tell(&other);
  there.reset();
  const std::optional<ErrorInfo> found = heard.wait();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, Reason::kPeerLost);
  EXPECT_THAT(found->ranks, ElementsAre(0));
  ASSERT_EQ(found->seen.size(), 1u);
  EXPECT_EQ(found->seen[0].global_rank, 3);
  EXPECT_EQ(found->seen[0].host, "host3");
  EXPECT_EQ(found->seen[0].pid, getpid());
  EXPECT_EQ(found->group, "dp");
  EXPECT_EQ(other.times(), 0u);
  without->tell(nullptr);
  mine->tell(nullptr);
}

TEST_F(HostNewsTest, CallsAreToldToTheMembersOfTheirGroup) {
  const auto here = join(0), there = join(3);
  Heard mine_heard, theirs_heard, other;
  const auto mine = group(here, 1, mine_heard);
  const auto theirs = group(there, 0, theirs_heard);
  const auto without = group(here, 1, other, 8);
  theirs->say_calls("a text of words");
  EXPECT_EQ(mine_heard.wait_for_text(), "a text of words");
  EXPECT_EQ(other.wait_for_text(Deadline::after(absl::ZeroDuration())), "");
  for (const auto& one : {mine, theirs, without}) one->tell(nullptr);
}

TEST_F(HostNewsTest, ARankThatLeavesIsNotLost) {
  const auto here = join(0);
  const auto there = join(3), last = join(2);
  Heard heard;
  const auto mine = group(here, 1, heard);
  there->leave(soon());
  // News come in order, so the later loss shows that the first was none.
  last->leave(soon());
  auto another = join(1);
  another.reset();
  const std::optional<ErrorInfo> found = heard.wait();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->seen[0].global_rank, 1);
  mine->tell(nullptr);
}

TEST_F(HostNewsTest, AFailureReachesTheMembersOnceAndNoOtherGroup) {
  const auto here = join(0), there = join(2);
  Heard heard, of_other, own;
  const auto mine = group(here, 1, heard);
  const auto other = group(here, 1, of_other, 9);
  const auto theirs = group(there, 2, own);
  theirs->break_off();
  theirs->break_off();
  const std::optional<ErrorInfo> found = heard.wait();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, Reason::kAborted);
  EXPECT_THAT(found->ranks, ElementsAre(2));
  EXPECT_THAT(found->what, HasSubstr("rank 2 gave up"));
  // A group that has heard of its failure says nothing of its own.
  mine->break_off();
  EXPECT_EQ(heard.times(), 1u);
  EXPECT_EQ(of_other.times(), 0u);
  EXPECT_EQ(own.times(), 0u);
  for (const auto& one : {mine, other, theirs}) one->tell(nullptr);
}

TEST_F(HostNewsTest, WithoutTheStoreItsHostIsLost) {
  const auto here = join(2);
  Heard heard, other;
  const auto mine = group(here, 2, heard);
  const auto without = GroupNews::open(here, {"tp", 8, 0, {2, 1}});
  without->tell(&other);
  server_.reset();
  const std::optional<ErrorInfo> found = heard.wait();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, Reason::kPeerLost);
  EXPECT_THAT(found->ranks, ElementsAre(1));
  EXPECT_THAT(found->what, HasSubstr("cannot be reached"));
  EXPECT_EQ(other.times(), 0u) << "groups without its ranks go on";
  without->tell(nullptr);
  mine->tell(nullptr);
}

// The board of rank 2, on whose host is rank 3 too. The test stands for rank 3,
// which ends.
class NeighbourThatEnds {
 public:
  explicit NeighbourThatEnds(const std::shared_ptr<Watchdog>& watchdog) {
    absl::StatusOr<DescriptorHandover> handover = DescriptorHandover::open();
    EXPECT_TRUE(handover.ok()) << handover.status();
    const std::string name = handover->name();
    board = *Board::meet(
        {.rank = 2, .watchdog = watchdog, .world_size = 4, .hears_hosts = true},
        *std::move(handover),
        std::vector<BoardOffer>{{"there", "x", 1},
                                {"there", "y", 2},
                                {"here", name, 3},
                                {"here", "z", 4}},
        soon());
    memory_ = *HostMemory::adopt(*ask_at(name, 2, {3, 4}, soon()), 2);
    FrontPage& front = memory_->area(1).front;
    EXPECT_TRUE(memory_->reserve(&front).ok());
    front.pid = kProcess;
    front.state.store(AreaState::kOpen);
    liveness_ = memory_->make_liveness(1);
    std::thread([this] { liveness_->hold(); }).join();
  }
  ~NeighbourThatEnds() { board->leave(); }

  static constexpr int64_t kProcess = 4711;
  std::shared_ptr<Board> board;

 private:
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<LivenessMutex> liveness_;
};

// The agent of this host has ended, and rank 0 ended because of that, before
// this rank had another way to the store.
TEST_F(HostNewsTest, ARankOfThisHostThatHasEndedIsNamedBeforeTheStoresHost) {
  const NeighbourThatEnds neighbour(watchdog_);
  const auto here = join_over(connect(), 2, {0}, neighbour.board);
  Heard heard, other;
  const auto mine = group(here, 2, heard);
  const auto without = GroupNews::open(here, {"tp", 8, 0, {2, 0}});
  without->tell(&other);
  server_.reset();
  const std::optional<ErrorInfo> found = heard.wait();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, Reason::kPeerLost);
  EXPECT_THAT(found->ranks, ElementsAre(0));
  ASSERT_EQ(found->seen.size(), 1u);
  EXPECT_EQ(found->seen[0].global_rank, 3);
  EXPECT_EQ(found->seen[0].host, "host2");
  EXPECT_EQ(found->seen[0].pid, NeighbourThatEnds::kProcess);
  // In a group without that rank, nobody but rank 0 is gone.
  const std::optional<ErrorInfo> of_other = other.wait();
  ASSERT_TRUE(of_other.has_value());
  EXPECT_EQ(of_other->seen[0].global_rank, 0);
  for (const auto& one : {mine, without}) one->tell(nullptr);
}

// A store that answers calls although it has closed the line.
class Expelling final : public store::ClientStore {
 public:
  explicit Expelling(store::StorePlace place) : place_(std::move(place)) {}
  const store::StorePlace& place() const override { return place_; }
  void give_up(absl::string_view) override {}
  absl::StatusOr<int64_t> append(absl::string_view log, absl::string_view,
                                 Deadline deadline) override {
    return calls_->add(log, 1, deadline);
  }
  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override {
    return calls_->set(key, value, deadline);
  }
  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline deadline) override {
    return calls_->get(key, deadline);
  }
  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override {
    return calls_->wait(keys, deadline);
  }
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override {
    return calls_->add(key, delta, deadline);
  }
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    return calls_->compare_set(key, expected, desired, deadline);
  }
  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override {
    return calls_->delete_key(key, deadline);
  }
  std::string address() const override { return "expelling"; }

 private:
  const store::StorePlace place_;
  const std::shared_ptr<Store> calls_ = Store::in_memory();
};

// Each of its groups learns that, and no line is written.
TEST_F(HostNewsTest, ARankThatIsGivenUpIsToldInAllItsGroups) {
  std::atomic<int> lines{0};
  base::set_log_sink([&](base::LogLevel, absl::string_view) { ++lines; });
  const auto here =
      join_over(std::make_shared<Expelling>(
                    *store::StorePlace::parse(server_->address())),
                2, {0});
  Heard heard, other;
  const auto mine = group(here, 2, heard);
  const auto without = GroupNews::open(here, {"tp", 8, 1, {1, 2}});
  without->tell(&other);
  server_.reset();
  for (Heard* const one : {&heard, &other}) {
    const std::optional<ErrorInfo> found = one->wait();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->reason, Reason::kPeerLost);
    EXPECT_THAT(found->what, HasSubstr("have given this rank up"));
  }
  EXPECT_EQ(lines, 0);
  for (const auto& one : {mine, without}) one->tell(nullptr);
  base::set_log_sink({});
}

// A rank that gets no answer of the store learns that its host was lost, where
// the line tells so, and nothing where the store is merely slow.
TEST_F(HostNewsTest, WhoGetsNoAnswerLearnsOfTheStoresEnd) {
  const auto here = join(2);
  Heard heard;
  const auto mine = group(here, 2, heard);
  const auto without = GroupNews::open(here, {"tp", 8, 0, {2, 1}});
  EXPECT_FALSE(mine->loss_of_store(/*does_not_answer=*/true).has_value());
  EXPECT_FALSE(mine->loss_of_store(/*does_not_answer=*/false).has_value());
  server_.reset();
  std::optional<ErrorInfo> found;
  for (const Deadline patience = soon();
       !found.has_value() && !patience.passed();)
    found = mine->loss_of_store(/*does_not_answer=*/false);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, Reason::kPeerLost);
  EXPECT_THAT(found->ranks, ElementsAre(1));
  EXPECT_FALSE(without->loss_of_store(/*does_not_answer=*/false).has_value());
  mine->tell(nullptr);
}

// Rank 0 has ended because of that, and the store with it.
TEST_F(HostNewsTest, WhoGetsNoAnswerLearnsOfTheRankThatWasLostBefore) {
  const auto here = join(2);
  auto there = join(3);
  Heard heard;
  const auto mine = group(here, 2, heard);
  there.reset();
  ASSERT_TRUE(heard.wait().has_value());
  server_.reset();
  const auto found = mine->loss_of_store(/*does_not_answer=*/false);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reason, Reason::kPeerLost);
  EXPECT_THAT(found->ranks, ElementsAre(0));
  EXPECT_EQ(found->seen[0].global_rank, 3);
  mine->tell(nullptr);
}

TEST_F(HostNewsTest, AGroupOfOneRankNeedsNone) {
  EXPECT_EQ(GroupNews::open(join(0), {"alone", 1, 0, {0}}), nullptr);
  EXPECT_EQ(GroupNews::open(nullptr, {"dp", 1, 0, {0, 1}}), nullptr);
}

}  // namespace
}  // namespace distwrap::comm
