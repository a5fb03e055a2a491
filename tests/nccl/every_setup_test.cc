// Every result code, and no return at all, at every call of NCCL by which
// several ranks build a communicator: from several ids, and of what is left
// after a failure.
#include "fake_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using conformance::Meeting;
using fakes::gpu::Calls;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The hosts of the ranks: when a call fails on one rank they abort the
// communicators of all. Keeps the errors.
class Hosts {
 public:
  void add(dw_comm* comm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    comms_.insert(comm);
    if (failed_) abort(comm);
  }
  void remove(dw_comm* comm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    comms_.erase(comm);
  }
  void call_failed(const dw_error& error) {
    note(error);
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    for (dw_comm* const comm : comms_) abort(comm);
  }
  void note(const dw_error& error) {
    EXPECT_NE(error.text[0], '\0');
    EXPECT_NE(error.code, DW_DEADLINE_EXCEEDED) << error.text;
    const std::lock_guard<std::mutex> lock(mutex_);
    errors_.emplace_back(error.text);
    knows_nccls_reason_ |= gives_nccls_reason(error);
  }
  // Nothing runs any more.
  const std::vector<std::string>& errors() const { return errors_; }
  bool knows_nccls_reason() const { return knows_nccls_reason_; }

 private:
  static void abort(dw_comm* comm) {
    const dw_error why = why_of("another rank has failed");
    EXPECT_EQ(nccl().comm_abort(comm, &why), DW_OK);
  }

  std::mutex mutex_;
  std::set<dw_comm*> comms_;
  bool failed_ = false;
  std::vector<std::string> errors_;
  bool knows_nccls_reason_ = false;
};

void end(FakeRank& rank, dw_comm* comm, Hosts& hosts) {
  rank.error = {};
  if (nccl().comm_destroy(comm, conformance::now_ns() + 5'000'000'000,
                          &rank.error) != DW_OK)
    hosts.note(rank.error);
}

// A sum over two ranks.
void use_and_end(FakeRank& rank, dw_comm* comm, Hosts& hosts) {
  hosts.add(comm);
  const DeviceInts x(rank, {1});
  dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
  op.flags |= DW_FLAG_CALLER_WAITS;
  rank.error = {};
  if (nccl().submit(comm, &op, nullptr, &rank.error) == DW_DONE)
    EXPECT_EQ(x.values(), Ints{2});
  else
    hosts.call_failed(rank.error);
  hosts.remove(comm);
  end(rank, comm, hosts);
}

// From here on a call fails, or hangs.
using Plan = std::function<void()>;

// Two ranks, with an id each.
void run_with_ids(const Team& team, Hosts& hosts, const Plan& plan) {
  plan();
  run_unopened(team, [&](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK) << rank.error.text;
    if (rank.build({{"ranks_per_id", "1"}}) == DW_OK)
      use_and_end(rank, std::exchange(rank.comm, nullptr), hosts);
    else
      hosts.note(rank.error);
    rank.close();
  });
}

// Ranks 0 and 2 of three are left. When a call has failed there they make
// another communicator, in whichever way is left.
void run_shrinking(const Team& team, Hosts& hosts, const Plan& plan) {
  Meeting two(2);
  bool again = false;
  const auto build = [&](FakeRank& rank, Hosts& by) {
    const int32_t left[] = {0, 2};
    dw_setup_info info = {};
    info.rank = rank.rank == 0 ? 0 : 1;
    info.size = 2;
    info.uid = 8;
    info.parent = rank.comm;
    info.parent_rank = left;
    dw_comm* made = nullptr;
    if (rank.build(info, two, &made) == DW_OK)
      use_and_end(rank, made, by);
    else
      by.note(rank.error);
  };
  run_ranks(team, [&](FakeRank& rank) {
    rank.meeting.meet();
    if (rank.rank == 0) plan();
    rank.meeting.meet();
    const dw_error why = why_of("rank 1 is lost");
    EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
    if (rank.rank != 1) {
      build(rank, hosts);
      two.meet();
      if (rank.rank == 0) again = fakes::gpu::has_failed();
      two.meet();
      Hosts others;
      if (again) build(rank, others);
      EXPECT_THAT(others.errors(), IsEmpty());
    }
    end(rank, std::exchange(rank.comm, nullptr), hosts);
  });
}

enum class Way { kIds, kShrink };

class NcclEverySetup
    : public testing::TestWithParam<std::tuple<int, Way, Calls>> {
 protected:
  int version() const { return std::get<0>(GetParam()); }
  Calls sort() const { return std::get<2>(GetParam()); }
  void run(Hosts& hosts, const Plan& plan) const {
    if (std::get<1>(GetParam()) == Way::kIds)
      run_with_ids({.size = 2, .version = version()}, hosts, plan);
    else
      run_shrinking({.size = 3, .version = version()}, hosts, plan);
  }
};

std::string name_of_setup(
    const testing::TestParamInfo<NcclEverySetup::ParamType>& of) {
  const char* const ways[] = {"Ids", "Shrink"};
  return std::to_string(std::get<0>(of.param)) +
         ways[static_cast<size_t>(std::get<1>(of.param))] +
         name_of(std::get<2>(of.param));
}
INSTANTIATE_TEST_SUITE_P(OfIds, NcclEverySetup,
                         testing::Combine(testing::Values(22304, 23203),
                                          testing::Values(Way::kIds),
                                          testing::Values(Calls::kOthers,
                                                          Calls::kDestroy,
                                                          Calls::kQuestion)),
                         name_of_setup);
INSTANTIATE_TEST_SUITE_P(
    OfWhatIsLeft, NcclEverySetup,
    testing::Combine(testing::Values(22902, 23203),
                     testing::Values(Way::kShrink),
                     testing::Values(Calls::kOthers, Calls::kDestroy,
                                     Calls::kAbort, Calls::kRevoke,
                                     Calls::kQuestion)),
    name_of_setup);

TEST_P(NcclEverySetup, Fails) {
  std::vector<std::string> errors;
  int calls = 0;
  for (int nth = 1, happened = 1; happened != 0; nth = next_call(nth, sort())) {
    happened = 0;
    std::vector<int> codes = codes_of(nth, version());
    if (sort() == Calls::kQuestion) codes.resize(1);
    for (const int code : codes) {
      SCOPED_TRACE("call " + std::to_string(nth));
      const InUse before;
      Hosts hosts;
      run(hosts, [&] { fakes::gpu::fail_call(nth, code, sort()); });
      happened = fakes::gpu::has_failed();
      fakes::gpu::fail_call(0, 0);
      // The group had failed before, and an abort follows a revocation that
      // fails.
      const bool may_be_silent =
          sort() == Calls::kRevoke || sort() == Calls::kQuestion;
      if (happened == 0) {
        EXPECT_THAT(hosts.errors(), IsEmpty());
      } else {
        EXPECT_TRUE(hosts.knows_nccls_reason() || may_be_silent);
      }
      errors.insert(errors.end(), hosts.errors().begin(), hosts.errors().end());
      expect_nothing_left();
      const bool keeps = sort() == Calls::kAbort || sort() == Calls::kDestroy;
      before.expect_same(keeps ? happened : 0);
    }
    calls += happened;
  }
  EXPECT_GE(calls, sort() == Calls::kOthers ? 10 : 2);
  if (sort() == Calls::kOthers && std::get<1>(GetParam()) == Way::kShrink) {
    EXPECT_THAT(errors, testing::Contains(HasSubstr("ncclCommShrink")));
  }
}

// A call that returns late is no failure, and other devices go on meanwhile.
TEST_P(NcclEverySetup, ReturnsLate) {
  for (int nth = 1, happened = 1; happened != 0; nth = next_call(nth, sort())) {
    SCOPED_TRACE("call " + std::to_string(nth));
    const InUse before;
    Hosts hosts;
    std::atomic<bool> over = false;
    std::thread program([&] {
      run(hosts, [&] { fakes::gpu::hang_call(nth, sort()); });
      over = true;
    });
    while (!over && !fakes::gpu::call_hangs()) std::this_thread::yield();
    happened = fakes::gpu::call_hangs();
    if (happened != 0) expect_goes_on(5);
    fakes::gpu::let_go();
    program.join();
    EXPECT_THAT(hosts.errors(), IsEmpty());
    expect_nothing_left();
    before.expect_same();
  }
}

}  // namespace
}  // namespace distwrap::nccl_test
