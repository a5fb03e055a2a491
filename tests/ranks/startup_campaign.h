// Random start-ups that go wrong, each determined by a number, and the time
// until ranks learned of the failure.
//
// Threads: one. The ranks of a try are threads of their own.
//
//   Campaign campaign("F13", 20);
//   while (campaign.next()) {
//     std::mt19937_64& random = campaign.random();
//     ... campaign.learnt(duration);
//   }
#ifndef DISTWRAP_TESTS_RANKS_STARTUP_CAMPAIGN_H_
#define DISTWRAP_TESTS_RANKS_STARTUP_CAMPAIGN_H_

#include "distwrap/session.h"

#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace distwrap::testing {

// DISTWRAP_TEST_SEED repeats only the try with that number.
class Campaign {
 public:
  Campaign(std::string name, int tries);
  // Prints the distribution of the times.
  ~Campaign();
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  // False when all tries are done or one has failed.
  bool next();
  std::mt19937_64& random() { return random_; }
  // From 0 to `limit` - 1.
  int pick(int limit);
  void learnt(absl::Duration after) { learnt_.push_back(after); }
  // The text for SCOPED_TRACE: what happens and how to repeat it.
  std::string told(const std::string& what) const;

 private:
  const std::string name_;
  const std::optional<uint64_t> only_;
  const int tries_;
  const uint64_t first_seed_;
  int done_ = 0;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
  std::vector<absl::Duration> learnt_;
};

// The stores of one try: each rank has the kind of store that a job's rank has.
class TryStore {
 public:
  // kHosts: ranks are on hosts of their own, whose agents join the store.
  enum class Kind { kInMemory, kSocket, kHosts };
  explicit TryStore(Kind kind);
  ~TryStore();
  std::shared_ptr<Store> connect() const;
  // For the options of the ranks.
  std::optional<int> ranks_per_node() const;
  // As if its host died: connections break, and nothing listens.
  void die();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One rank of a try: the times at which it came and ended.
struct RankEnd {
  absl::Status init;
  absl::Status work;  // result of an operation after the start
  int64_t came_ns = 0, ended_ns = 0;
  bool ok() const { return init.ok() && work.ok(); }
};

// The options of a rank, and the time from the start of the try until it comes.
struct RankStart {
  InitOptions options;
  absl::Duration delay = absl::ZeroDuration();
  std::function<void()> before = {};
  std::function<void(const absl::Status&)> after = {};  // called after init
};

// Runs the ranks as threads; all sessions are closed.
std::vector<RankEnd> run_try(const std::vector<RankStart>& ranks);

// The time that a loaded machine may add: a bound of tests.
constexpr absl::Duration kLoaded = absl::Seconds(5);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_STARTUP_CAMPAIGN_H_
