// Sessions that fail in each step of their start leave the door as it was.
#include "guarded.h"

#include <dirent.h>
#include <limits>
#include <stdlib.h>
#include <sys/resource.h>
#include <thread>

namespace distwrap {
namespace {

class GuardStarts : public Guard {
 protected:
  void SetUp() override {
    Guard::SetUp();
    outer_ = session_of_one(GuardMode::kOff);
  }
  void TearDown() override {
    EXPECT_EQ(guard_status().mode, GuardMode::kOff);
    EXPECT_EQ(call_send(), kDone);
    EXPECT_TRUE(outer_.close().ok());
  }

  Session outer_;
};

// A store whose calls fail from the n-th on.
class Failing final : public Store {
 public:
  Failing(std::shared_ptr<Store> below, int calls)
      : below_(std::move(below)), left_(calls) {}

  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override {
    if (--left_ < 0) return gone();
    return below_->set(key, value, deadline);
  }
  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline deadline) override {
    if (--left_ < 0) return gone();
    return below_->get(key, deadline);
  }
  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override {
    if (--left_ < 0) return gone();
    return below_->wait(keys, deadline);
  }
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override {
    if (--left_ < 0) return gone();
    return below_->add(key, delta, deadline);
  }
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    if (--left_ < 0) return gone();
    return below_->compare_set(key, expected, desired, deadline);
  }
  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override {
    if (--left_ < 0) return gone();
    return below_->delete_key(key, deadline);
  }
  std::string address() const override { return below_->address(); }

  bool failed() const { return left_ < 0; }

 private:
  static absl::Status gone() {
    return absl::UnavailableError("the store has gone, on purpose");
  }

  const std::shared_ptr<Store> below_;
  std::atomic<int> left_;
};

// Starts two ranks, of which the first has the failing store.
bool starts(const std::shared_ptr<Store>& store,
            const std::shared_ptr<Store>& failing) {
  const auto rank = [](int me, std::shared_ptr<Store> own, bool* started) {
    const GuardMode wish = me == 0 ? GuardMode::kBlock : GuardMode::kWarn;
    const auto session =
        Session::create({.rank = me,
                         .world_size = 2,
                         .store = std::move(own),
                         .init_timeout = absl::Milliseconds(60),
                         .guard = wish});
    *started = session.ok();
    if (!session.ok()) return;
    // Rank 1 may be alone: the other start may have failed.
    EXPECT_GE(guard_status().mode, wish);
    session->close(absl::Milliseconds(300)).IgnoreError();
  };
  bool first = false, second = false;
  std::thread other(rank, 1, store, &second);
  rank(0, failing, &first);
  other.join();
  return first && second;
}

TEST_F(GuardStarts, ThatLoseTheStore) {
  int failed = 0;
  for (int calls = 0; calls < 200; ++calls) {
    const auto store = Store::in_memory();
    const auto failing = std::make_shared<Failing>(store, calls);
    const bool both = starts(store, failing);
    ASSERT_EQ(guard_status().mode, GuardMode::kOff) << calls;
    ASSERT_EQ(call_send(), kDone) << calls;
    failed += both ? 0 : 1;
    if (both && !failing->failed()) break;
  }
  EXPECT_GT(failed, 3);
}

// Descriptors in use; the next one that is opened has this number or a higher.
rlim_t descriptors() {
  rlim_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count - 3;  // ".", ".." and the folder itself
}

TEST_F(GuardStarts, ThatGetNoDescriptor) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlim_t used = descriptors();
  int failed = 0;
  bool started = false;
  for (rlim_t more = 0; more < 40 && !started; ++more) {
    const rlimit few = {used + more, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto store = Store::in_memory();
    started = starts(store, store);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_EQ(guard_status().mode, GuardMode::kOff) << more;
    failed += started ? 0 : 1;
  }
  EXPECT_TRUE(started);
  EXPECT_GT(failed, 0);
}

TEST_F(GuardStarts, ThatFailInTheirPlanOrTheirEngine) {
  const auto fails = [](InitOptions options) {
    if (options.rank < 0) options.rank = 0;
    if (options.world_size < 0) options.world_size = 1;
    options.guard = GuardMode::kBlock;
    EXPECT_FALSE(Session::create(options).ok());
    EXPECT_EQ(guard_status().mode, GuardMode::kOff);
    EXPECT_EQ(call_send(), kDone);
  };
  fails({.backend = "nobody"});
  fails({.backend = "cpu:shm:x"});
  fails({.rank = 2, .world_size = 1});
  fails({.init_method = "nowhere://"});
  for (const char* slot : {"open", "caps", "setup_begin", "setup_step"}) {
    setenv("GUARD_TEST_FAILS", slot, 1);
    fails({.backend = "below"});
    unsetenv("GUARD_TEST_FAILS");
  }
  // An end that fails is an end.
  auto session = Session::create({.backend = "below",
                                  .rank = 0,
                                  .world_size = 1,
                                  .guard = GuardMode::kBlock});
  ASSERT_TRUE(session.ok()) << session.status();
  setenv("GUARD_TEST_FAILS", "comm_destroy", 1);
  session->close().IgnoreError();
  unsetenv("GUARD_TEST_FAILS");
}

}  // namespace
}  // namespace distwrap
