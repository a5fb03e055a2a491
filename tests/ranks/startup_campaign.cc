#include "ranks/startup_campaign.h"

#include "distwrap/distwrap.h"
#include "store/run_directory.h"
#include "store/server_thread.h"
#include "unit/store/store_under_test.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace distwrap::testing {
namespace {

std::optional<uint64_t> wanted_seed() {
  const char* const text = std::getenv("DISTWRAP_TEST_SEED");
  uint64_t seed = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &seed)) return std::nullopt;
  return seed;
}

// An operation whose result shows which ranks took part.
absl::Status add_up(const Session& session) {
  double sum = 1;
  const absl::Status status = all_reduce(TensorView(&sum, 1), ReduceOp::kSum,
                                         {.group = session.world()})
                                  .status();
  if (status.ok()) {
    EXPECT_EQ(sum, session.world_size());
  }
  return status;
}

}  // namespace

Campaign::Campaign(std::string name, int tries)
    : name_(std::move(name)),
      only_(wanted_seed()),
      tries_(only_.has_value() ? 1 : tries),
      first_seed_(only_.value_or(std::random_device()() % 1'000'000'000)) {}

bool Campaign::next() {
  if (done_ == tries_ || ::testing::Test::HasFailure()) return false;
  seed_ = first_seed_ + static_cast<uint64_t>(done_++);
  random_.seed(seed_);
  return true;
}

int Campaign::pick(int limit) {
  return static_cast<int>(random_() % static_cast<uint64_t>(limit));
}

std::string Campaign::told(const std::string& what) const {
  const ::testing::TestInfo& test =
      *::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(what, "; repeat with DISTWRAP_TEST_SEED=", seed_,
                      " and --gtest_filter=", test.test_suite_name(), ".",
                      test.name());
}

Campaign::~Campaign() {
  if (learnt_.empty()) return;
  std::sort(learnt_.begin(), learnt_.end());
  const auto at = [&](size_t percent) {
    return absl::ToDoubleMilliseconds(
        learnt_[(learnt_.size() - 1) * percent / 100]);
  };
  std::printf(
      "%s: %d tries, %zu errors learnt after: median %.1f ms, p90 %.1f, p99 "
      "%.1f, longest %.1f\n",
      name_.c_str(), done_, learnt_.size(), at(50), at(90), at(99), at(100));
}

struct TryStore::State {
  std::shared_ptr<Store> in_memory;
  std::optional<store::RunDirectory> directory;
  std::unique_ptr<store::ServerThread> server;
  std::unique_ptr<store::NetworkStore> network;
  std::unique_ptr<store::AgentThread> agent;
  std::string address;
};

TryStore::TryStore(Kind kind) : state_(std::make_unique<State>()) {
  if (kind == Kind::kHosts) {
    state_->network = std::make_unique<store::NetworkStore>();
    state_->agent = state_->network->make_agent();
    state_->address = state_->agent->address();
    return;
  }
  if (kind == Kind::kInMemory) {
    state_->in_memory = Store::in_memory();
    return;
  }
  auto directory = store::RunDirectory::make(base::Environment::of_process());
  EXPECT_TRUE(directory.ok()) << directory.status();
  state_->directory.emplace(*std::move(directory));
  auto server =
      store::ServerThread::start(state_->directory->path() + "/store");
  EXPECT_TRUE(server.ok()) << server.status();
  state_->address = (*server)->address();
  state_->server = *std::move(server);
}

TryStore::~TryStore() = default;

std::shared_ptr<Store> TryStore::connect() const {
  if (state_->in_memory != nullptr) return state_->in_memory;
  auto store =
      Store::connect(state_->address, Deadline::after(absl::Seconds(20)));
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::optional<int> TryStore::ranks_per_node() const {
  if (state_->network == nullptr) return std::nullopt;
  return 1;
}

void TryStore::die() {
  state_->server.reset();
  state_->network.reset();
}

std::vector<RankEnd> run_try(const std::vector<RankStart>& ranks) {
  std::vector<RankEnd> ends(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&start = ranks[i], &end = ends[i]] {
      // The try is about the times at which ranks come.
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(start.delay));
      if (start.before) start.before();
      end.came_ns = Deadline::now_ns();
      const absl::StatusOr<Session> session = Session::create(start.options);
      end.init = session.status();
      if (start.after) start.after(end.init);
      if (session.ok()) end.work = add_up(*session);
      end.ended_ns = Deadline::now_ns();
      if (session.ok()) (void)session->close(absl::Seconds(1));
    });
  for (std::thread& thread : threads) thread.join();
  return ends;
}

}  // namespace distwrap::testing
