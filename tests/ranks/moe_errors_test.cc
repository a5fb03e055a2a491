// Bad input of mixture-of-experts calls: a reason on the ranks that can know
// it, inputs unchanged, and a group that goes on.
#include "ranks/moe_ranks.h"

#include <gmock/gmock.h>

namespace distwrap::testing {
namespace {

using ::testing::HasSubstr;

size_t at(int64_t i) { return static_cast<size_t>(i); }

// A plan call with one fault, made by one rank or by all; every rank gets the
// reason.
struct BadPlan {
  const char* name;
  Reason reason;
  const char* text;
  // Changes the arguments of a rank: 4 experts, ids (3,2).
  std::function<void(int me, MoeOptions* options, std::vector<int64_t>* ids,
                     std::vector<int64_t>* shape)>
      change;
};

const std::vector<int32_t> kNoRank = {0, 1, 2, 0}, kThree = {0, 1, 0},
                           kOneNode = {0};
const std::vector<int> kFar = {4};

const BadPlan kBadPlans[] = {
    {"AnIdAboveTheExperts", Reason::kRoutingRange,
     "the id in slot 1 of token 2 of rank 1 is no expert",
     [](int me, auto*, auto* ids, auto*) {
       if (me == 1) (*ids)[5] = 4;
     }},
    {"AnIdBelowMinusOne", Reason::kRoutingRange,
     "the id in slot 0 of token 0 of rank 0 is no expert",
     [](int me, auto*, auto* ids, auto*) {
       if (me == 0) (*ids)[0] = -2;
     }},
    {"OtherSlots", Reason::kCallMismatch, "different numbers of slots (K)",
     [](int me, auto*, auto*, auto* shape) {
       if (me == 1) *shape = {2, 3};
     }},
    {"OtherExperts", Reason::kCallMismatch, "different numbers of experts",
     [](int me, MoeOptions* o, auto*, auto*) {
       if (me == 1) o->num_experts = 6;
     }},
    {"OtherOptions", Reason::kCallMismatch, "different options",
     [](int me, MoeOptions* o, auto*, auto*) {
       if (me == 1) o->layout = MoeLayout::kExpertMajor;
     }},
    {"TooManyTokens", Reason::kInvalidArgument, "more tokens than max_tokens",
     [](int me, MoeOptions* o, auto*, auto* shape) {
       o->max_tokens = 2;
       if (me == 0) *shape = {2, 2};
     }},
    {"ExpertsThatCannotBeDivided", Reason::kInvalidArgument,
     "cannot be divided equally",
     [](int, MoeOptions* o, auto*, auto*) { o->num_experts = 5; }},
    {"NoExperts", Reason::kInvalidArgument, "no number of experts",
     [](int, MoeOptions* o, auto*, auto*) { o->num_experts = 0; }},
    {"AnExpertOnNoRank", Reason::kInvalidArgument, "expert_to_rank[2]",
     [](int, MoeOptions* o, auto*, auto*) { o->expert_to_rank = kNoRank; }},
    {"TooFewRanksOfExperts", Reason::kInvalidArgument, "expert_to_rank",
     [](int, MoeOptions* o, auto*, auto*) { o->expert_to_rank = kThree; }},
    {"AlignmentOfRanks", Reason::kInvalidArgument, "alignment",
     [](int, MoeOptions* o, auto*, auto*) { o->alignment = 4; }},
    {"AlignmentZero", Reason::kInvalidArgument, "alignment",
     [](int, MoeOptions* o, auto*, auto*) {
       o->layout = MoeLayout::kExpertMajor;
       o->alignment = 0;
     }},
    {"ACapacityWithoutAPolicy", Reason::kInvalidArgument, "policy",
     [](int, MoeOptions* o, auto*, auto*) { o->expert_capacity = 4; }},
    {"APolicyWithoutACapacity", Reason::kInvalidArgument, "policy",
     [](int, MoeOptions* o, auto*, auto*) {
       o->overflow = MoeOverflow::kCapacityDrop;
     }},
    {"ANegativeCapacity", Reason::kInvalidArgument, "negative",
     [](int, MoeOptions* o, auto*, auto*) { o->row_capacity = -1; }},
    {"FixedBasesWithoutACapacity", Reason::kInvalidArgument, "fixed bases",
     [](int, MoeOptions* o, auto*, auto*) {
       o->layout = MoeLayout::kExpertMajor;
       o->bases = MoeBases::kFixed;
     }},
    {"RowsForLessThanTheExperts", Reason::kInvalidArgument,
     "no room for the capacity of all experts",
     [](int, MoeOptions* o, auto*, auto*) {
       o->layout = MoeLayout::kExpertMajor;
       o->overflow = MoeOverflow::kCapacityDrop;
       o->expert_capacity = 3;
       o->alignment = 2;
       o->row_capacity = 7;
     }},
    {"AMaskedRankThatIsNone", Reason::kInvalidArgument, "masked_ranks",
     [](int, MoeOptions* o, auto*, auto*) { o->masked_ranks = kFar; }},
    {"NodesOfOtherRanks", Reason::kInvalidArgument, "node_of",
     [](int, MoeOptions* o, auto*, auto*) { o->node_of = kOneNode; }},
    {"ACapacityThatIsTooSmall", Reason::kCapacity, "expert_capacity 4",
     [](int, MoeOptions* o, auto*, auto*) {
       o->overflow = MoeOverflow::kCapacityError;
       o->expert_capacity = 3;
     }},
};

TEST(MoeErrors, APlanIsRefusedOnAllRanks) {
  run_bound(2, [](int me) {
    for (const BadPlan& bad : kBadPlans) {
      SCOPED_TRACE(bad.name);
      MoeOptions options{.num_experts = 4};
      std::vector<int64_t> ids = {0, 1, 2, 3, 0, 1}, shape = {3, 2};
      bad.change(me, &options, &ids, &shape);
      const std::vector<int64_t> before = ids;
      const absl::StatusOr<MoePlan> plan =
          moe_plan(TensorView(ids.data(), shape), options);
      expect_reason(plan.status(), bad.reason, bad.text);
      EXPECT_THAT(std::string(plan.status().message()), HasSubstr("Next: "));
      EXPECT_EQ(ids, before);
      finish(barrier());  // the group goes on
    }
  });
}

TEST(MoeErrors, AnIdIsNamedByRankTokenAndSlot) {
  run_bound(3, [](int me) {
    Routed<int64_t> routed{2, {{0, 1}, {2, 1, 0, 9}, {-5, 0}}};
    const absl::Status status = routed.plan(me, {.num_experts = 9}).status();
    expect_reason(status, Reason::kRoutingRange,
                  "slot 1 of token 1 of rank 1 is no expert");
    const std::optional<ErrorInfo> info = error_info(status);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->ranks, (std::vector<int>{1}));
    EXPECT_EQ(info->expected, "-1..8");
    EXPECT_EQ(info->actual, "9");
  });
}

TEST(MoeErrors, ARoutingOfAnotherTypeOrShape) {
  run_bound(2, [](int me) {
    std::vector<float> floats(6);
    std::vector<int64_t> ids(6, 0);
    std::vector<uint8_t> map(6, 0);
    const int64_t shape[] = {3, 2}, strides[] = {1, 3}, empty[] = {3, 0};
    const TensorView bad[] = {
        TensorView(floats.data(), shape), TensorView(ids),
        TensorView(ids.data(), shape, strides),
        TensorView(ids.data(), shape, DType::kI64, {.type = 2})};
    for (const TensorView& view : bad)
      expect_reason(moe_plan(view, {.num_experts = 4}).status(),
                    Reason::kMetadataType);
    const TensorView impossible[] = {
        TensorView(static_cast<int64_t*>(nullptr), shape),
        TensorView(ids.data(), empty),
        TensorView(map.data(), shape, DType::kBool)};
    for (const TensorView& view : impossible)
      expect_reason(moe_plan(view, {.num_experts = 4}).status(),
                    Reason::kInvalidArgument);
    // One rank's fault is the error of all.
    const absl::Status one = moe_plan(me == 0 ? TensorView(floats.data(), shape)
                                              : TensorView(ids.data(), shape),
                                      {.num_experts = 4})
                                 .status();
    expect_reason(one, Reason::kMetadataType);
    EXPECT_EQ(error_info(one)->ranks,
              me == 0 ? std::vector<int>() : std::vector<int>{0});
    finish(barrier());
  });
}

// Each capacity at one less than what is needed, exactly that, and one more.
TEST(MoeErrors, CapacitiesAroundWhatIsNeeded) {
  run_bound(2, [](int me) {
    // Rank 0 gets 6 rows and 4 pairs of expert 0.
    Routed<int32_t> routed{2, {{0, 1, 0, 3, 0, -1}, {1, 0, 2, 1, 1, -1}}};
    for (const bool drop : {false, true})
      for (const int64_t more : {-1, 0, 1})
        for (const bool rows : {false, true}) {
          MoeOptions options{.num_experts = 4,
                             .overflow = drop ? MoeOverflow::kCapacityDrop
                                              : MoeOverflow::kCapacityError};
          (rows ? options.row_capacity : options.expert_capacity) =
              (rows ? 6 : 4) + more;
          std::vector<uint8_t> first;
          for (int repeat = 0; repeat < 2; ++repeat) {
            const absl::StatusOr<MoePlan> plan = routed.plan(me, options);
            if (more < 0 && !drop) {
              expect_reason(plan.status(), Reason::kCapacity,
                            rows ? "row_capacity 6" : "expert_capacity 4");
              EXPECT_EQ(error_info(plan.status())->ranks,
                        (std::vector<int>{0}));
              continue;
            }
            ASSERT_TRUE(plan.ok()) << plan.status();
            std::vector<int64_t> lost =
                values_of<int64_t>(plan->dropped_per_expert());
            const int64_t all = lost[0] + lost[1] + lost[2] + lost[3];
            // Each rank has one pair less of experts 0 and 1, or their rows.
            EXPECT_EQ(all, more >= 0 ? 0 : rows ? 1 : 2);
            const std::vector<uint8_t> kept = values_of<uint8_t>(plan->kept());
            if (repeat == 0) first = kept;
            EXPECT_EQ(kept, first) << "the same pairs are kept";
            EXPECT_EQ(plan->output_rows() >= plan->recv_rows(), true);
          }
        }
  });
}

// Calls with a plan, refused before anything is sent.
TEST(MoeErrors, CallsAreRefusedOnOneRank) {
  run_bound(2, [](int me) {
    Routed<int32_t> routed{2, {{0, 1, 2, 3}, {1, 2, 0, 3}}};
    const MoePlan ranks = good(routed.plan(me, {.num_experts = 4}));
    const MoePlan experts = good(
        routed.plan(me, {.num_experts = 4, .layout = MoeLayout::kExpertMajor}));
    ASSERT_TRUE(ranks && experts);
    const int64_t m = ranks.recv_rows(), n = experts.recv_rows();
    Floats x(8, 1), out(at(4 * (m + n)), 2), bias(8), weights(at(4 * n));
    std::vector<int32_t> ints(at(4 * n));
    const auto view = [](auto& data, int64_t count, int64_t width) {
      // Shapes are borrowed for the call.
      static thread_local std::array<int64_t, 2> shapes[16];
      static thread_local size_t next = 0;
      std::array<int64_t, 2>& shape = shapes[next++ % 16];
      shape = {count, width};
      return TensorView(data.data(), shape);
    };
    const auto refuse = [&](const absl::Status& status, Reason reason,
                            absl::string_view text) {
      expect_reason(status, reason, text);
    };
    using R = Reason;
    const auto dispatch = [&](TensorView from, TensorView to) {
      return moe_dispatch(ranks, from, to).status();
    };
    refuse(dispatch(view(x, 3, 2), view(out, m, 2)), R::kPlanMismatch,
           "another number of rows");
    refuse(dispatch(view(x, 2, 4), view(out, m - 1, 4)), R::kInvalidArgument,
           "fewer rows");
    refuse(dispatch(view(x, 2, 4), view(out, m, 3)), R::kInvalidArgument,
           "differ in size");
    refuse(dispatch(view(x, 2, 4), view(ints, m, 4)), R::kInvalidArgument,
           "differ in element type");
    refuse(dispatch(view(x, 2, 0), view(out, m, 0)), R::kInvalidArgument,
           "is empty");
    refuse(dispatch(view(x, 2, 4), view(out, m, 4).as_read_only()),
           R::kInvalidArgument, "read-only");
    refuse(dispatch(view(out, 2, 4), view(out, m, 4)), R::kInvalidArgument,
           "share memory");
    const int64_t two[] = {2, 4};
    refuse(dispatch(TensorView(static_cast<float*>(nullptr), two),
                    view(out, m, 4)),
           R::kInvalidArgument, "has no memory");
    refuse(dispatch(TensorView(x.data(), two, DType::kF32, {.type = 2}),
                    view(out, m, 4)),
           R::kUnsupported, "not in host memory");
    const SideChannel wrong[] = {
        SideChannel::weights(view(ints, 2, 2), view(ints, m, 2))};
    refuse(moe_dispatch(ranks, view(x, 2, 4), view(out, m, 4), wrong).status(),
           R::kInvalidArgument, "");

    const auto combine = [&](const MoePlan& plan, TensorView from,
                             TensorView to, const CombineOptions& how) {
      return moe_combine(plan, from, to, how).status();
    };
    std::vector<uint8_t> bytes(at(4 * n));
    refuse(combine(ranks, view(bytes, m, 4), view(bytes, 2, 4), {}),
           R::kInvalidArgument, "");
    refuse(combine(ranks, view(out, m - 1, 4), view(x, 2, 4), {}),
           R::kPlanMismatch, "fewer rows");
    refuse(combine(ranks, view(out, m, 4), view(x, 3, 2), {}), R::kPlanMismatch,
           "another number of rows");
    std::vector<double> doubles(8);
    refuse(combine(ranks, view(out, m, 4), view(doubles, 2, 4), {}),
           R::kInvalidArgument, "neither the type of y nor f32");
    refuse(combine(ranks, view(out, m, 4), view(x, 2, 4),
                   {.weighting = MoeWeighting::kAtExpert,
                    .weights = TensorView(weights)}),
           R::kInvalidArgument, "rank-major rows are sums already");
    refuse(combine(experts, view(out, n, 4), view(x, 2, 4),
                   {.weighting = MoeWeighting::kAtSource,
                    .weights = TensorView(weights)}),
           R::kPlanMismatch, "weights has another number of rows");
    refuse(combine(experts, view(ints, n, 4), view(x, 2, 4),
                   {.weighting = MoeWeighting::kAtExpert,
                    .weights = view(weights, n, 1)}),
           R::kInvalidArgument, "integers take no weights");
    const TensorView three[] = {view(bias, 2, 4), view(bias, 2, 4),
                                view(bias, 2, 4)};
    refuse(combine(ranks, view(out, m, 4), view(x, 2, 4), {.bias = three}),
           R::kInvalidArgument, "more than two biases");

    refuse(moe_dispatch(MoePlan(), view(x, 2, 4), view(out, m, 4)).status(),
           R::kPlanMismatch, "there is no plan");
    refuse(moe_plan(view(ints, 2, 2), {.num_experts = 4}, {.async = true})
               .status(),
           R::kInvalidArgument, "async");
    refuse(moe_dispatch(ranks, view(x, 2, 4), view(out, m, 4), {},
                        {.timeout = absl::ZeroDuration()})
               .status(),
           R::kInvalidArgument, "");
    EXPECT_EQ(x, Floats(8, 1));
    EXPECT_EQ(out, Floats(at(4 * (m + n)), 2)) << "nothing was written";
    finish(moe_dispatch(ranks, view(x, 2, 4), view(out, m, 4)));
  });
}

TEST(MoeErrors, APlanOfAnotherGroup) {
  run_bound(3, [](int me) {
    const absl::StatusOr<Group> pair = split_group({.split_ranks = {{0, 1}}});
    ASSERT_TRUE(pair.ok()) << pair.status();
    Routed<int32_t> routed{1, {{0}, {1}, {2}}};
    const MoePlan plan = good(routed.plan(me, {.num_experts = 3}));
    ASSERT_TRUE(plan);
    Floats x(1), out(at(plan.output_rows()));
    if (*pair)
      expect_reason(moe_dispatch(plan, TensorView(x), TensorView(out), {},
                                 {.group = *pair})
                        .status(),
                    Reason::kPlanMismatch, "another group");
    finish(moe_dispatch(plan, TensorView(x), TensorView(out)));
    if (*pair) {
      OpOptions in_pair;
      in_pair.group = *pair;
      const MoePlan of_pair =
          good(routed.plan(me, {.num_experts = 2}, in_pair));
      ASSERT_TRUE(destroy_process_group(*pair).ok());
      // Dropping the plan of a group that has ended is local.
      expect_reason(
          moe_dispatch(of_pair, TensorView(x), TensorView(out)).status(),
          Reason::kGroupClosed);
    }
  });
}

// Row shapes that differ between ranks are one error on all.
TEST(MoeErrors, RowsOfDifferentSizes) {
  run_ranks(2, {.backend = "shm", .timeout = absl::Seconds(20)},
            [](Session& session) {
              bind_session(session);
              const int me = session.rank();
              Routed<int32_t> routed{1, {{1}, {0}}};
              const MoePlan plan = good(routed.plan(me, {.num_experts = 2}));
              ASSERT_TRUE(plan);
              Floats x(2), out(2);
              const int64_t shape[] = {1, me + 1};
              expect_reason(moe_dispatch(plan, TensorView(x.data(), shape),
                                         TensorView(out.data(), shape))
                                .status(),
                            Reason::kCallMismatch);
              bind_session({});
            });
}

}  // namespace
}  // namespace distwrap::testing
