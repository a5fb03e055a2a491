// After the first calls a dispatch and a combine that wait allocate nothing,
// and neither does a plan in the memory of an earlier one.
#include "distwrap/distwrap.h"
#include "distwrap/memory.h"
#include "distwrap/moe.h"
#include "failing_new.h"
#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <utility>
#include <vector>

namespace distwrap::testing {
namespace {

int64_t allocations_of(MoeLayout layout, bool weighted) {
  constexpr int64_t kTokens = 16, kSlots = 2, kWidth = 8;
  std::vector<int32_t> ids(kTokens * kSlots);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(i * 3 % 4);
  const std::array<int64_t, 2> slots = {kTokens, kSlots};
  const absl::StatusOr<MoePlan> plan = moe_plan(
      TensorView(ids.data(), slots), {.num_experts = 4, .layout = layout});
  EXPECT_TRUE(plan.ok()) << plan.status();
  const int64_t rows = plan->recv_rows();
  std::vector<float> x(kTokens * kWidth, 1), out(x.size()),
      y(static_cast<size_t>(rows * kWidth)), weights(ids.size(), 1),
      row_weights(static_cast<size_t>(rows));
  const std::array<int64_t, 2> tokens = {kTokens, kWidth},
                               received = {rows, kWidth};
  const SideChannel side[] = {SideChannel::weights(
      TensorView(weights.data(), slots), TensorView(row_weights))};
  CombineOptions combine;
  if (weighted) {
    combine.weighting = MoeWeighting::kAtExpert;
    combine.weights = TensorView(row_weights);
  }
  for (int i = 0; i < 20; ++i) {
    if (i == 10) FailingNew::arm(int64_t{1} << 60);
    const bool good = moe_dispatch(*plan, TensorView(x.data(), tokens),
                                   TensorView(y.data(), received),
                                   absl::MakeConstSpan(side, weighted ? 1 : 0))
                          .ok() &&
                      moe_combine(*plan, TensorView(y.data(), received),
                                  TensorView(out.data(), tokens), combine)
                          .ok();
    EXPECT_TRUE(good);
  }
  FailingNew::disarm();
  return FailingNew::counted();
}

TEST(MoeAllocations, CallsThatWaitAllocateNothing) {
  ASSERT_TRUE(init_process_group({.rank = 0, .world_size = 1}).ok());
  FailingNew::arm(int64_t{1} << 60);
  const std::vector<int> counts(3);
  FailingNew::disarm();
  EXPECT_EQ(FailingNew::counted(), 1) << "allocations are counted";
  EXPECT_EQ(allocations_of(MoeLayout::kRankMajor, false), 0);
  EXPECT_EQ(allocations_of(MoeLayout::kExpertMajor, false), 0);
  EXPECT_EQ(allocations_of(MoeLayout::kExpertMajor, true), 0);
  ASSERT_TRUE(destroy_process_group().ok());
}

// Plans whose memory goes from one to the next, with other experts each time.
class Router {
 public:
  Router(int rank, int ranks, const MoeOptions& options)
      : rank_(rank), ranks_(ranks), options_(options) {
    options_.num_experts = 2 * ranks;
    // With the padding of both buckets.
    const int64_t most = kTokens * kSlots * ranks + 2 * options.alignment;
    y_.resize(static_cast<size_t>(most * kWidth));
    row_weights_.resize(static_cast<size_t>(most * kSlots));
  }

  // Routings whose sequence begins anew.
  void begin() { random_.seed(static_cast<uint32_t>(rank_)); }
  bool route_anew() {
    for (int32_t& id : ids_)
      id = static_cast<int32_t>(random_() %
                                static_cast<uint32_t>(2 * ranks_ + 1)) -
           1;
    return layer();
  }

 private:
  static constexpr int64_t kTokens = 16, kSlots = 2, kWidth = 4;

  bool layer() {
    const std::array<int64_t, 2> slots = {kTokens, kSlots};
    auto made = moe_plan(TensorView(ids_.data(), slots), options_,
                         kDefaultOptions, std::exchange(plan_, MoePlan()));
    if (!made.ok()) return false;
    plan_ = *std::move(made);
    const std::array<int64_t, 2> tokens = {kTokens, kWidth},
                                 rows = {plan_.output_rows(), kWidth};
    const std::array<int64_t, 1> weights = {plan_.output_rows()};
    const TensorView y(y_.data(), rows), x(x_.data(), tokens);
    const SideChannel side[] = {
        SideChannel::weights(TensorView(weights_.data(), slots),
                             TensorView(row_weights_.data(), weights))};
    const bool expert_major = options_.layout == MoeLayout::kExpertMajor;
    // The weights go to the experts and come back as values of the slots.
    const std::array<int64_t, 2> row_slots = {
        plan_.output_rows(), expert_major ? int64_t{1} : kSlots};
    const CombineOptions::Return returns[] = {
        {TensorView(row_weights_.data(), row_slots),
         TensorView(back_.data(), slots)}};
    const TensorView bias(bias_.data(), tokens);
    CombineOptions combine{.bias = absl::MakeConstSpan(&bias, 1),
                           .returns = returns};
    if (expert_major) {
      combine.weighting = MoeWeighting::kAtExpert;
      combine.weights = TensorView(row_weights_.data(), weights);
    }
    return moe_dispatch(plan_, x, y,
                        absl::MakeConstSpan(side, expert_major ? 1 : 0))
               .ok() &&
           moe_combine(plan_, y, TensorView(out_.data(), tokens), combine).ok();
  }

  const int rank_, ranks_;
  MoeOptions options_;
  MoePlan plan_;
  std::mt19937 random_{static_cast<uint32_t>(rank_)};
  std::vector<int32_t> ids_ = std::vector<int32_t>(kTokens * kSlots);
  std::vector<float> x_ = std::vector<float>(kTokens * kWidth, 1), out_ = x_,
                     bias_ = x_,
                     weights_ = std::vector<float>(kTokens * kSlots, 1),
                     back_ = weights_, y_, row_weights_;
};

int64_t allocations_of_routings(const char* backend, int ranks,
                                const MoeOptions& options, int routings) {
  int64_t counted = -1;
  run_ranks(ranks, {.backend = backend, .timeout = absl::Seconds(60)},
            [&](Session& session) {
              bind_session(session);
              Router router(session.rank(), ranks, options);
              bool good = true;
              // The first pass makes the memory as large as it has to be.
              const auto calls = [&] {
                for (const int masked : options.masked_ranks)
                  if (masked == session.rank()) return false;
                return true;
              }();
              router.begin();
              for (int i = 0; i < routings && calls && good; ++i)
                good = router.route_anew();
              router.begin();
              good = good && barrier().ok();
              if (session.rank() == 0) FailingNew::arm(int64_t{1} << 60);
              good = good && barrier().ok();
              for (int i = 0; i < routings && calls && good; ++i)
                good = router.route_anew();
              good = good && barrier().ok();
              if (session.rank() == 0) {
                FailingNew::disarm();
                counted = FailingNew::counted();
              }
              EXPECT_TRUE(good);
              EXPECT_TRUE(barrier().ok());
              bind_session({});
            });
  return counted;
}

TEST(MoeAllocations, PlansInTheMemoryOfEarlierOnesAllocateNothing) {
  const std::vector<int32_t> nodes = {0, 0, 1, 1};
  EXPECT_EQ(allocations_of_routings("loopback", 1, {}, 1000), 0);
  EXPECT_EQ(allocations_of_routings("shm", 2, {}, 1000), 0);
  EXPECT_EQ(allocations_of_routings("shm", 2,
                                    {.layout = MoeLayout::kExpertMajor,
                                     .alignment = 4,
                                     .overflow = MoeOverflow::kCapacityDrop,
                                     .expert_capacity = 9},
                                    1000),
            0);
  for (const MoeDedup level :
       {MoeDedup::kNone, MoeDedup::kRank, MoeDedup::kNode})
    for (const MoeLayout layout :
         {MoeLayout::kRankMajor, MoeLayout::kExpertMajor})
      EXPECT_EQ(allocations_of_routings(
                    "shm", 4,
                    {.dedup = level, .layout = layout, .node_of = nodes}, 1000),
                0)
          << static_cast<int>(level) << static_cast<int>(layout);
}

// Rows in memory of the backend, which are lent in the first of these calls,
// staged in others, and then go the faster way.
int64_t allocations_of_allocated_rows(bool weighted) {
  constexpr int64_t kTokens = 64, kSlots = 2, kWidth = 1024;
  int64_t counted = -1;
  run_ranks(
      2, {.backend = "shm", .timeout = absl::Seconds(60)},
      [&](Session& session) {
        bind_session(session);
        std::vector<int32_t> ids(kTokens * kSlots);
        for (size_t i = 0; i < ids.size(); ++i)
          ids[i] = static_cast<int32_t>(i * 3 % 4);
        const std::array<int64_t, 2> slots = {kTokens, kSlots};
        const absl::StatusOr<MoePlan> plan =
            moe_plan(TensorView(ids.data(), slots),
                     {.num_experts = 4, .layout = MoeLayout::kExpertMajor});
        const absl::StatusOr<MemAllocator> allocator = get_mem_allocator();
        ASSERT_TRUE(plan.ok() && allocator.ok()) << allocator.status();
        const std::array<int64_t, 2> tokens = {kTokens, kWidth},
                                     received = {plan->recv_rows(), kWidth};
        auto x = allocator->allocate(kTokens * kWidth * 4),
             y = allocator->allocate(received[0] * kWidth * 4),
             out = allocator->allocate(kTokens * kWidth * 4);
        ASSERT_TRUE(x.ok() && y.ok() && out.ok());
        const auto floats = [](Memory& memory, const auto& shape) {
          return TensorView(static_cast<float*>(memory.data()), shape);
        };
        std::vector<float> weights(ids.size(), 1),
            row_weights(static_cast<size_t>(received[0]));
        const SideChannel side[] = {SideChannel::weights(
            TensorView(weights.data(), slots), TensorView(row_weights))};
        CombineOptions combine;
        if (weighted) {
          combine.weighting = MoeWeighting::kAtExpert;
          combine.weights = TensorView(row_weights);
        }
        bool good = true;
        for (int i = 0; i < 60; ++i) {
          if (i == 30) {
            good = good && barrier().ok();
            if (session.rank() == 0) FailingNew::arm(int64_t{1} << 60);
            good = good && barrier().ok();
          }
          good = good &&
                 moe_dispatch(*plan, floats(*x, tokens), floats(*y, received),
                              absl::MakeConstSpan(side, weighted ? 1 : 0))
                     .ok() &&
                 moe_combine(*plan, floats(*y, received), floats(*out, tokens),
                             combine)
                     .ok();
        }
        good = good && barrier().ok();
        if (session.rank() == 0) {
          FailingNew::disarm();
          counted = FailingNew::counted();
        }
        EXPECT_TRUE(good && barrier().ok());
        bind_session({});
      });
  return counted;
}

TEST(MoeAllocations, MemoryOfTheBackendChangesNothing) {
  for (const bool weighted : {false, true})
    EXPECT_EQ(allocations_of_allocated_rows(weighted), 0) << weighted;
}

// Messages in place of collectives.
TEST(MoeAllocations, RanksThatDoNotCallChangeNothing) {
  const std::vector<int> masked = {1};
  for (const MoeDedup level : {MoeDedup::kNone, MoeDedup::kRank})
    EXPECT_EQ(allocations_of_routings("shm", 3,
                                      {.dedup = level,
                                       .layout = MoeLayout::kExpertMajor,
                                       .masked_ranks = masked},
                                      1000),
              0)
        << static_cast<int>(level);
}

}  // namespace
}  // namespace distwrap::testing
