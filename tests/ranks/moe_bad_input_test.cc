// Bad input of the raw forms as one table. One rank makes a fault, and every
// rank gets the same error; no output is written, inputs are as they were, and
// the group goes on.
#include "distwrap/moe_dynamic.h"
#include "distwrap/moe_raw.h"
#include "ranks/moe_ranks.h"

#include <string>

namespace distwrap::testing {
namespace {

using Longs = std::vector<int64_t>;
using Ints = std::vector<int32_t>;
constexpr int32_t kKept = -7;
constexpr int kRanks = 4;

// Buffers for one call of any raw form, which a row of the table spoils. Ranks
// are in 2 nodes of 2; maps and tokens are those of the worked vector A.
struct Buffers {
  explicit Buffers(int me) : in(vector_tokens(me)) {
    const Ints all = [] {
      Ints experts;
      for (const auto& of_rank : vector_a().ids)
        experts.insert(experts.end(), of_rank.begin(), of_rank.end());
      return experts;
    }();
    const int64_t shape[] = {kRanks, 3, 2};
    maps = *dedup_maps(TensorView(all.data(), shape), 1, 2, me);
    outs.assign(kRanks, Ints(4, kKept));
    ins.assign(kRanks, Ints(2, 5));
    for (Ints& one : outs) out_views.emplace_back(one);
    for (Ints& one : ins) in_views.emplace_back(one);
    send = TensorView(maps.send);
    forward = TensorView(maps.forward);
    recv = TensorView(maps.recv);
    x = TensorView(in);
    y = TensorView(rows);
    block_ids = TensorView(ids);
    counts_view = TensorView(counts);
    lists_view = TensorView(lists);
    per_rank_view = TensorView(per_rank);
    received_view = TensorView(received);
    gathered_view = TensorView(gathered);
    numbers = TensorView(wide);
  }

  // By map.
  DedupMaps maps;
  Ints in, rows = Ints(8, kKept), ids = Ints(8, kKept);
  TensorView send, forward, recv, x, y, block_ids;
  DedupRequest request;
  // By size: one row for each rank, chunk r for rank r.
  std::vector<Ints> outs, ins;
  std::vector<TensorView> out_views, in_views;
  Longs counts = {1, 1, 1, 0}, lists = {0, 1, 2, 3}, per_rank = {1, 1, 1, 1},
        received = Longs(4, kKept), gathered = Longs(16, kKept);
  TensorView counts_view, lists_view, per_rank_view, received_view,
      gathered_view;
  int64_t row = 1;
  std::map<std::string, std::string> hints;
  // Something of another type or size.
  Longs wide = Longs(12, 0);
  TensorView numbers;
};

using Call = absl::Status (*)(Buffers&);

absl::Status exec(Buffers& b) {
  return alltoallv_dedup_exec(b.y, b.block_ids, b.x, b.send, b.forward, b.recv,
                              b.request)
      .status();
}
absl::Status combine(Buffers& b) {
  // The tokens are what is written.
  return alltoallv_dedup_combine(b.out_views[0].count() < 3
                                     ? b.out_views[0]
                                     : b.out_views[0].flat(0, 3),
                                 b.y, b.send, b.forward, b.recv, b.request)
      .status();
}
absl::Status dynamic(Buffers& b) {
  return alltoallv_dynamic(b.out_views, b.received_view, b.in_views,
                           b.counts_view)
      .status();
}
absl::Status split(Buffers& b) {
  return alltoallv_dynamic_split(b.out_views, b.received_view, b.x,
                                 b.counts_view)
      .status();
}
absl::Status single(Buffers& b) {
  return device_alltoallv_single(b.out_views[0], b.x, b.lists_view,
                                 b.counts_view, b.hints)
      .status();
}
absl::Status dispatch(Buffers& b) {
  return alltoallv_dynamic_dispatch(b.out_views, b.gathered_view, b.x,
                                    b.counts_view, b.lists_view,
                                    b.per_rank_view, b.row)
      .status();
}
absl::Status bring_back(Buffers& b) {
  b.gathered.assign(16, 0);
  return alltoallv_dynamic_combine(b.out_views[0], b.y, b.gathered_view,
                                   b.lists_view, b.per_rank_view, b.row)
      .status();
}
absl::Status init(Buffers& b) {
  return alltoallv_dedup_init(b.row, 1, 2, 1, DType::kI32, 2).status();
}

struct Bad {
  const char* name;
  Call call;
  Reason reason;
  const char* text;
  void (*spoil)(Buffers&);
  int rank = 1;
};

TensorView gapped(Ints& data) {
  static const int64_t kShape[] = {2, 3}, kStrides[] = {1, 2};
  return TensorView(data.data(), kShape, kStrides);
}
TensorView on_device(const TensorView& view) {
  return TensorView(view.data(), view.count(), view.dtype(), {.type = 2});
}

const Bad kBad[] = {
    // Metadata of another type, with gaps, or elsewhere.
    {"MapOfI64", exec, Reason::kMetadataType, "send_indices",
     [](Buffers& b) { b.send = b.numbers; }},
    {"MapWithGaps", exec, Reason::kMetadataType, "send_indices",
     [](Buffers& b) { b.send = gapped(b.maps.send); }},
    {"MapOnADevice", exec, Reason::kMetadataType, "recv_indices",
     [](Buffers& b) { b.recv = on_device(b.recv); }},
    {"IdsOfI64", exec, Reason::kMetadataType, "recv_block_ids",
     [](Buffers& b) { b.block_ids = b.numbers; }},
    {"CountsOfI32", dynamic, Reason::kMetadataType, "input_counts",
     [](Buffers& b) { b.counts_view = b.x; }},
    {"ReceivedOfI32", dynamic, Reason::kMetadataType, "output_counts",
     [](Buffers& b) { b.received_view = b.x; }},
    {"LengthsOnADevice", split, Reason::kMetadataType, "input_split_lengths",
     [](Buffers& b) { b.counts_view = on_device(b.counts_view); }},
    {"SplitsOfI32", single, Reason::kMetadataType, "input_split_sizes",
     [](Buffers& b) { b.counts_view = b.x; }},
    {"SizesOfI32", dispatch, Reason::kMetadataType, "input_split_sizes",
     [](Buffers& b) { b.counts_view = b.x; }},
    {"ChunkIdsOfI32", bring_back, Reason::kMetadataType, "input_split_indices",
     [](Buffers& b) { b.lists_view = b.x; }},
    // Wrong sizes, null, D, and what is not divisible.
    {"MapOfAnotherSize", exec, Reason::kInvalidArgument, "forward_indices",
     [](Buffers& b) { b.forward = TensorView(b.rows); }},
    {"NoMap", exec, Reason::kInvalidArgument, "recv_indices",
     [](Buffers& b) {
       b.recv = TensorView(static_cast<int32_t*>(nullptr), 12);
     }},
    {"NoInput", exec, Reason::kInvalidArgument, "input has no memory",
     [](Buffers& b) { b.x = TensorView(static_cast<int32_t*>(nullptr), 3); }},
    {"InputOfOtherTokens", exec, Reason::kInvalidArgument,
     "input has another number of rows",
     [](Buffers& b) { b.x = b.x.flat(0, 2); }},
    {"OutputOfOtherTokens", combine, Reason::kInvalidArgument,
     "out has another number of rows",
     [](Buffers& b) { b.out_views[0] = TensorView(b.outs[0].data(), 2); }},
    {"InputOfAnotherType", exec, Reason::kInvalidArgument, "input",
     [](Buffers& b) { b.x = b.numbers; }},
    {"OutputIsInput", exec, Reason::kInvalidArgument, "share memory",
     [](Buffers& b) { b.y = b.x; }},
    {"ReadOnlyOutput", combine, Reason::kInvalidArgument, "read-only",
     [](Buffers& b) { b.out_views[0] = b.out_views[0].as_read_only(); }},
    {"TokensThatAreTooFew", init, Reason::kInvalidArgument, "at least 1",
     [](Buffers& b) { b.row = 0; }},
    {"NoOutputs", dynamic, Reason::kInvalidArgument, "one output for each rank",
     [](Buffers& b) { b.out_views.clear(); }},
    {"OneInputTooFew", dynamic, Reason::kInvalidArgument,
     "one input for each rank", [](Buffers& b) { b.in_views.pop_back(); }},
    {"TooManyCounts", dynamic, Reason::kInvalidArgument, "input_counts",
     [](Buffers& b) { b.counts_view = b.numbers; }},
    {"OutputsThatOverlap", dynamic, Reason::kInvalidArgument, "share memory",
     [](Buffers& b) { b.out_views[0] = b.out_views[1]; }},
    {"NoOutputList", dispatch, Reason::kInvalidArgument,
     "one output for each rank", [](Buffers& b) { b.out_views.clear(); }},
    {"NoElements", dispatch, Reason::kInvalidArgument, "no elements",
     [](Buffers& b) { b.row = 0; }},
    {"NegativeElements", bring_back, Reason::kInvalidArgument, "no elements",
     [](Buffers& b) { b.row = -1; }},
    {"SlabsThatAreUneven", bring_back, Reason::kInvalidArgument,
     "one slab for each rank", [](Buffers& b) { b.y = b.y.flat(0, 7); }},
    {"SizesThatAreUneven", bring_back, Reason::kInvalidArgument,
     "one row for each rank",
     [](Buffers& b) { b.gathered_view = b.gathered_view.flat(0, 15); }},
    {"AHintThatIsNone", single, Reason::kInvalidArgument, "num_waves",
     [](Buffers& b) { b.hints["num_waves"] = "1"; }},
    {"AHintWithoutANumber", single, Reason::kInvalidArgument, "num_blocks",
     [](Buffers& b) { b.hints["num_blocks"] = "many"; }},
    {"AHintThatIsUnknown", single, Reason::kInvalidArgument, "block_scheduling",
     [](Buffers& b) { b.hints["block_scheduling"] = "none"; }},
    // Maps and ids.
    {"AMapBeyondT", exec, Reason::kIndexMap, "at row 0, position 2",
     [](Buffers& b) { b.maps.send[2] = 3; }},
    {"AMapBelowMinusOne", exec, Reason::kIndexMap,
     "recv_indices has -2 at row 0, position 0",
     [](Buffers& b) { b.maps.recv[0] = -2; }},
    {"AMapThatIsPermuted", combine, Reason::kIndexMap,
     "send_indices has 1 at row 1, position 0",
     [](Buffers& b) { std::swap(b.maps.send[3], b.maps.send[4]); }},
    {"IdsThatDescend", dispatch, Reason::kIndexMap,
     "input_split_indices has 0 for rank 0 at position 1",
     [](Buffers& b) {
       b.lists = {1, 0, 2, 3};
       b.per_rank = {2, 0, 1, 1};
     }},
    {"AnIdTwice", dispatch, Reason::kIndexMap,
     "input_split_indices has 1 for rank 0",
     [](Buffers& b) {
       b.lists = {1, 1, 2, 3};
       b.per_rank = {2, 0, 1, 1};
     }},
    {"AnIdOfAnotherRow", bring_back, Reason::kIndexMap,
     "input_split_indices has 3 for rank 1 at position 1",
     [](Buffers& b) {
       b.lists = {0, 3, 8, 12};
     }},
    {"NegativeSizes", dispatch, Reason::kIndexMap,
     "input_split_sizes has -1 at position 2",
     [](Buffers& b) { b.counts[2] = -1; }},
    {"NegativeNumberOfIds", dispatch, Reason::kIndexMap,
     "input_split_indices_per_rank has -1 at position 0",
     [](Buffers& b) { b.per_rank[0] = -1; }},
    {"NegativeCounts", dynamic, Reason::kIndexMap,
     "input_counts has -3 at position 1", [](Buffers& b) { b.counts[1] = -3; }},
    {"NegativeLengths", split, Reason::kIndexMap,
     "input_split_lengths has -1 at position 0",
     [](Buffers& b) { b.counts[0] = -1; }},
    {"NegativeSplits", single, Reason::kIndexMap,
     "output_split_sizes has -1 at position 3",
     [](Buffers& b) {
       b.lists = {1, 1, 1, -1};
     }},
    // Rows beyond a buffer.
    {"RowsBeyondTheOutput", exec, Reason::kCapacity, "5 rows or more",
     [](Buffers& b) { b.y = b.y.flat(0, 4); }},
    {"RowsBeyondTheInput", combine, Reason::kCapacity, "5 rows or more",
     [](Buffers& b) { b.y = b.y.flat(0, 4); }},
    {"CountsBeyondTheInput", dynamic, Reason::kCapacity, "3 elements or more",
     [](Buffers& b) { b.counts[2] = 3; }},
    {"CountsBeyondTheOutput", dynamic, Reason::kCapacity, "1 elements or more",
     [](Buffers& b) { b.out_views[3] = b.out_views[3].flat(0, 0); }},
    {"LengthsBeyondTheInput", split, Reason::kCapacity, "input_split_lengths",
     [](Buffers& b) { b.counts[3] = 1; }},
    {"ChunksBeyondTheInput", dispatch, Reason::kCapacity,
     "the chunks need 102 elements", [](Buffers& b) { b.counts[3] = 99; }},
    {"SplitsBeyondTheInput", single, Reason::kCapacity, "input_split_sizes",
     [](Buffers& b) { b.counts[3] = 1; }},
    // Ranks that do not agree.
    {"OtherMaps", exec, Reason::kIndexMap, "differ",
     [](Buffers& b) {
       b.maps.send[3] = 0, b.maps.send[4] = -1, b.maps.send[5] = 1;
     }},
    {"OtherTypes", dynamic, Reason::kCallMismatch, "different element types",
     [](Buffers& b) {
       for (size_t r = 0; r < kRanks; ++r) {
         b.in_views[r] = TensorView(b.ins[r].data(), 2, DType::kF32);
         b.out_views[r] = TensorView(b.outs[r].data(), 4, DType::kF32);
       }
     }},
    {"OtherNumbersOfChunks", dispatch, Reason::kCallMismatch,
     "different numbers of chunks",
     [](Buffers& b) {
       b.counts_view = b.counts_view.flat(0, 3);
       b.gathered_view = b.gathered_view.flat(0, 12);
       b.lists_view = b.lists_view.flat(0, 3);
       b.per_rank = {1, 1, 1, 0};
     }},
    {"OtherSplits", single, Reason::kCallMismatch, "than its receiver expects",
     [](Buffers& b) {
       b.lists = {1, 0, 1, 1};
     }},
    {"OtherRequests", init, Reason::kCallMismatch, "different sizes",
     [](Buffers& b) { b.row = 2; }},
};

class MoeBadInput : public ::testing::TestWithParam<Bad> {};

TEST_P(MoeBadInput, IsOneErrorOnAllRanks) {
  const Bad& bad = GetParam();
  run_bound(kRanks, [&](int me) {
    Buffers b(me);
    if (bad.call == exec || bad.call == combine) {
      absl::StatusOr<DedupRequest> request =
          alltoallv_dedup_init(3, 1, 2, 1, DType::kI32, 2);
      ASSERT_TRUE(request.ok()) << request.status();
      b.request = *request;
    }
    // Splits that both sides state: rank r sends its row of `counts`.
    if (bad.call == single) b.lists.assign(4, me == 3 ? 0 : 1);
    if (bad.call == bring_back) b.lists = {0, 4, 8, 12};
    if (bad.call == init) b.row = 3;
    if (me == bad.rank) bad.spoil(b);
    const Ints in = b.in;
    const absl::Status status = bad.call(b);
    expect_reason(status, bad.reason, bad.text);
    if (bad.reason != Reason::kCallMismatch &&
        status.code() != absl::StatusCode::kOk) {
      const std::vector<int> ranks = error_info(status)->ranks;
      EXPECT_EQ(std::count(ranks.begin(), ranks.end(), bad.rank), 1) << status;
    }
    EXPECT_EQ(b.in, in);
    EXPECT_EQ(b.rows, Ints(8, kKept));
    EXPECT_EQ(b.ids, Ints(8, kKept));
    EXPECT_EQ(b.received, Longs(4, kKept));
    for (const Ints& out : b.outs) EXPECT_EQ(out, Ints(4, kKept));
    // The group still works: without the fault the call succeeds.
    Buffers good(me);
    good.request = b.request;
    if (bad.call == single) good.lists.assign(4, me == 3 ? 0 : 1);
    if (bad.call == bring_back) good.lists = {0, 4, 8, 12};
    if (bad.call == init) good.row = 3;
    const absl::Status again = bad.call(good);
    EXPECT_TRUE(again.ok()) << again;
  });
}

INSTANTIATE_TEST_SUITE_P(All, MoeBadInput, ::testing::ValuesIn(kBad),
                         [](const auto& test) {
                           return std::string(test.param.name);
                         });

}  // namespace
}  // namespace distwrap::testing
