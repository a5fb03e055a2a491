// Lessons from other libraries that need several groups over one store. The
// conformance suite has those about a backend alone; tests/unit/base has the
// flags that mean "no".
#include "comm/communicator.h"
#include "comm/setup.h"
#include "plugin/registry.h"
#include "ranks/rank_threads.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <memory>

namespace distwrap {
namespace {

using comm::BackendCommunicator;

// The parts with which a rank builds groups by itself.
class Member {
 public:
  explicit Member(const InitOptions& options) : store_(options.store) {
    const auto table = plugin::Registry({}).find("gloo");
    EXPECT_TRUE(table.ok()) << table.status();
    auto backend = comm::BackendInstance::open(*table, kCpu, {});
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  // A group is identified by its uid, which its members derive from common
  // facts.
  BackendCommunicator::Ptr build(uint64_t uid, int rank, int size) {
    const absl::StatusOr<dw_comm*> built =
        comm::build_communicator(*backend_, *store_,
                                 {.group = "g",
                                  .uid = uid,
                                  .rank = rank,
                                  .size = size,
                                  .keys = absl::StrCat("group/", uid, "/")},
                                 Deadline::after(absl::Seconds(30)));
    EXPECT_TRUE(built.ok()) << built.status();
    if (!built.ok()) return nullptr;
    return BackendCommunicator::make(
        comm::Identity{"g", rank, size, absl::Seconds(30)}, backend_, *built,
        comm::FirstFailure(store_, absl::StrCat("failure/", uid)), watchdog_);
  }

 private:
  const std::shared_ptr<Store> store_;
  std::shared_ptr<comm::Watchdog> watchdog_ = *comm::Watchdog::make();
  std::shared_ptr<comm::BackendInstance> backend_;
};

// Sums a one over the group and closes it.
void expect_sum(BackendCommunicator& group, int64_t size) {
  int64_t one = 1;
  const absl::StatusOr<Work> work = group.all_reduce(
      TensorView(&one, 1), TensorView(&one, 1), ReduceOp::kSum, {});
  EXPECT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(one, size);
  group.drain(Deadline::after(absl::Seconds(10)));
  EXPECT_TRUE(group.destroy(Deadline::after(absl::Seconds(10))).ok());
}

TEST(Lessons, G06_AGroupOfSomeDoesNotShiftTheNextOneOfAll) {
  testing::run_rank_threads(4, {}, [](int rank, const InitOptions& options) {
    Member member(options);
    if (rank % 2 == 1) {  // ranks 1 and 3, twice
      for (const uint64_t uid : {uint64_t{100}, uint64_t{101}}) {
        const auto some = member.build(uid, rank / 2, 2);
        ASSERT_NE(some, nullptr);
        expect_sum(*some, 2);
      }
    }
    const auto all = member.build(102, rank, 4);
    ASSERT_NE(all, nullptr);
    expect_sum(*all, 4);
  });
}

TEST(Lessons, G10_AGroupNeedsNoRankZero) {
  testing::run_rank_threads(4, {}, [](int rank, const InitOptions& options) {
    if (rank == 0) return;
    Member member(options);
    const auto group = member.build(7, rank - 1, 3);
    ASSERT_NE(group, nullptr);
    expect_sum(*group, 3);
  });
}

}  // namespace
}  // namespace distwrap
