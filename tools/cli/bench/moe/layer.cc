#include "bench/moe/layer.h"

#include "bench/element.h"
#include "bench/moe/by_hand.h"
#include "bench/turns.h"
#include "distwrap/distwrap.h"
#include "distwrap/memory.h"
#include "distwrap/moe.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr const char* kLevels[] = {"auto", "none", "rank", "node"};

size_t at(int64_t i) { return static_cast<size_t>(i); }

MoeOptions options_of(const MoeLayerSpec& spec) {
  MoeOptions options{.num_experts = spec.router.experts};
  for (size_t i = 0; i < std::size(kLevels); ++i)
    if (spec.dedup == kLevels[i]) options.dedup = static_cast<MoeDedup>(i);
  options.layout = spec.layout == "rank_major" ? MoeLayout::kRankMajor
                                               : MoeLayout::kExpertMajor;
  if (spec.capacity > 0) {
    options.overflow = MoeOverflow::kCapacityDrop;
    options.expert_capacity = spec.capacity;
  }
  return options;
}

// Rows of elements as bytes.
using Bytes = std::vector<uint8_t>;

template <class T>
Bytes tokens_of(const MoeLayerSpec& spec, int rank) {
  const int64_t count = spec.router.tokens * spec.hidden;
  Bytes x(at(count) * sizeof(T));
  const int64_t values = kLargestExact<BF16> / spec.router.topk + 1;
  for (int64_t i = 0; i < count; ++i) {
    const T value(static_cast<float>((i + rank) % values));
    memcpy(x.data() + at(i) * sizeof(T), &value, sizeof(T));
  }
  return x;
}

// Small whole numbers, whose sums are exact in any order.
Bytes draw_tokens(const MoeLayerSpec& spec, int rank) {
  return spec.dtype == DType::kF32 ? tokens_of<float>(spec, rank)
                                   : tokens_of<BF16>(spec, rank);
}

// The bytes' memory for calls: their own, or memory of the backend with a copy
// of them, which `held` keeps.
absl::StatusOr<uint8_t*> memory_for(const MoeLayerSpec& spec, Bytes* bytes,
                                    std::vector<Memory>* held) {
  if (!spec.shared_memory) return bytes->data();
  const absl::StatusOr<MemAllocator> allocator = get_mem_allocator();
  if (!allocator.ok()) return allocator.status();
  absl::StatusOr<Memory> made =
      allocator->allocate(static_cast<int64_t>(bytes->size()));
  if (!made.ok()) return made.status();
  held->push_back(*std::move(made));
  auto* const data = static_cast<uint8_t*>(held->back().data());
  memcpy(data, bytes->data(), bytes->size());
  return data;
}

// Whether all ranks' sums are those by hand. Those count a token once for each
// expert and drop none, as expert-major rows without a capacity do; rank-major
// rows are once for each rank.
absl::StatusOr<bool> compare(const MoeLayerSpec& spec, const Bytes& ours,
                             const Bytes& by_hand) {
  const bool alike = spec.layout == "expert_major" && spec.capacity == 0;
  int32_t wrong = alike && ours != by_hand ? 1 : 0;
  absl::Status status =
      all_reduce(TensorView(&wrong, 1), ReduceOp::kMax).status();
  if (!status.ok()) return status;
  return wrong == 0;
}

// The tokens that any rank gets.
int64_t tokens_sent(const MoePlan& plan) {
  const auto* const in_rank =
      static_cast<const uint8_t*>(plan.token_in_rank().data());
  const int64_t ranks = plan.token_in_rank().extent(1);
  int64_t sent = 0;
  for (int64_t t = 0; t < plan.tokens(); ++t)
    sent += std::any_of(in_rank + t * ranks, in_rank + (t + 1) * ranks,
                        [](uint8_t goes) { return goes != 0; });
  return sent;
}

}  // namespace

absl::Status measure_moe(const std::string& backend, const MoeLayerSpec& spec,
                         int rounds, const std::string& path) {
  const absl::StatusOr<Session> session =
      init_process_group({.backend = backend});
  if (!session.ok()) return session.status();
  const int rank = get_rank(), ranks = get_world_size();
  std::vector<int64_t> ids;
  if (spec.router_file.empty()) {
    ids = draw_experts(spec.router, rank);
  } else {
    auto all = read_experts(spec.router_file, spec.router, ranks);
    if (!all.ok()) return all.status();
    ids = std::move((*all)[at(rank)]);
  }
  Bytes x = draw_tokens(spec, rank);
  const int64_t row_bytes = spec.hidden * dtype_size(spec.dtype);
  const int64_t id_shape[] = {spec.router.tokens, spec.router.topk};
  const int64_t x_shape[] = {spec.router.tokens, spec.hidden};
  const TensorView id_view(ids.data(), id_shape);
  std::vector<Memory> held;
  const auto x_at = memory_for(spec, &x, &held);
  if (!x_at.ok()) return x_at.status();
  const TensorView x_view(*x_at, x_shape, spec.dtype);

  MoePlan plan;
  const auto make_plan = [&] {
    auto made = moe_plan(id_view, options_of(spec), kDefaultOptions,
                         std::exchange(plan, MoePlan()));
    if (made.ok()) plan = *std::move(made);
    return made.status();
  };
  MoeByHand hand(ranks, spec.router.experts, spec.router.topk, spec.hidden,
                 spec.dtype);
  absl::Status status = make_plan();
  if (status.ok()) status = hand.lay_out(ids);
  if (!status.ok()) return status;
  const int64_t row_shape[] = {plan.output_rows(), spec.hidden};
  Bytes rows(at(plan.output_rows() * row_bytes)), back(x.size()),
      by_hand(x.size());
  const auto rows_at = memory_for(spec, &rows, &held);
  if (!rows_at.ok()) return rows_at.status();
  const auto back_at = memory_for(spec, &back, &held);
  if (!back_at.ok()) return back_at.status();
  const TensorView row_view(*rows_at, row_shape, spec.dtype);
  const TensorView back_view(*back_at, x_shape, spec.dtype);
  status = plan.prepare(row_bytes);
  if (!status.ok()) return status;

  MoeCost cost;
  const auto measure = [&](const char* name, const Timed& ours,
                           const Timed& theirs) {
    const Timed contestants[] = {ours, theirs};
    const auto times = take_turns(contestants, rounds, 2);
    if (!times.ok()) return times.status();
    cost.phases.push_back({.name = name,
                           .us = median((*times)[0]),
                           .hand_us = median((*times)[1]),
                           .ratio = paired_ratio((*times)[0], (*times)[1])});
    return absl::OkStatus();
  };
  status = measure(
      "dispatch", [&] { return moe_dispatch(plan, x_view, row_view).status(); },
      [&] { return hand.dispatch(x); });
  if (status.ok())
    status = measure(
        "combine",
        [&] { return moe_combine(plan, row_view, back_view).status(); },
        [&] { return hand.combine(&by_hand); });
  if (!status.ok()) return status;
  if (*back_at != back.data()) memcpy(back.data(), *back_at, back.size());
  const absl::StatusOr<bool> equal = compare(spec, back, by_hand);
  if (!equal.ok()) return equal.status();
  cost.equal = *equal;
  cost.rows = plan.recv_rows();
  const MoeTraffic traffic = plan.traffic();
  cost.sent_rows = traffic.inter_rows + traffic.intra_rows + traffic.local_rows;
  cost.hand_rows = hand.pairs();
  cost.bytes = cost.rows * row_bytes;
  cost.bytes_inter = traffic.inter_rows * row_bytes;
  cost.bytes_intra = traffic.intra_rows * row_bytes;
  cost.bytes_local = traffic.local_rows * row_bytes;
  const TensorView dropped = plan.dropped_per_expert();
  for (int64_t e = 0; e < dropped.count(); ++e)
    cost.dropped += static_cast<const int64_t*>(dropped.data())[e];
  cost.dedup = kLevels[static_cast<size_t>(plan.dedup())];
  const Timed copies[] = {[&] {
    for (int64_t i = 0; i < cost.rows; ++i)
      memcpy(*rows_at + i * row_bytes,
             *x_at + i % spec.router.tokens * row_bytes, at(row_bytes));
    return absl::OkStatus();
  }};
  const auto copied = take_turns(copies, rounds, 2);
  if (!copied.ok()) return copied.status();
  cost.memcpy_us = median((*copied)[0]);
  if (cost.rows > 0)
    cost.limit_us = cost.memcpy_us *
                    static_cast<double>(tokens_sent(plan) + cost.rows) /
                    static_cast<double>(2 * cost.rows);
  // Last, since it takes over the plan that the calls above use.
  status = measure("plan", make_plan, [&] { return hand.lay_out(ids); });
  if (!status.ok()) return status;
  if (rank == 0) std::ofstream(path) << write_moe(cost);
  return destroy_process_group();
}

std::string write_moe(const MoeCost& cost) {
  std::string text = absl::StrCat(
      cost.rows, " ", cost.sent_rows, " ", cost.hand_rows, " ", cost.bytes, " ",
      cost.dedup, " ", cost.memcpy_us, " ", cost.equal ? 1 : 0, " ",
      cost.limit_us, " ", cost.dropped, " ", cost.bytes_inter, " ",
      cost.bytes_intra, " ", cost.bytes_local, "\n");
  for (const MoePhase& phase : cost.phases)
    absl::StrAppend(&text, phase.name, " ", phase.us, " ", phase.hand_us, " ",
                    phase.ratio.median, " ", phase.ratio.low, " ",
                    phase.ratio.high, "\n");
  return text;
}

absl::StatusOr<MoeCost> read_moe(absl::string_view text) {
  const auto bad = [] {
    return absl::DataLossError("the ranks reported no times");
  };
  const std::vector<absl::string_view> lines =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (lines.size() < 2) return bad();
  MoeCost cost;
  const std::vector<std::string> head = absl::StrSplit(lines[0], ' ');
  int equal = 0;
  if (head.size() != 12 || !absl::SimpleAtoi(head[0], &cost.rows) ||
      !absl::SimpleAtoi(head[1], &cost.sent_rows) ||
      !absl::SimpleAtoi(head[2], &cost.hand_rows) ||
      !absl::SimpleAtoi(head[3], &cost.bytes) ||
      !absl::SimpleAtod(head[5], &cost.memcpy_us) ||
      !absl::SimpleAtoi(head[6], &equal) ||
      !absl::SimpleAtod(head[7], &cost.limit_us) ||
      !absl::SimpleAtoi(head[8], &cost.dropped) ||
      !absl::SimpleAtoi(head[9], &cost.bytes_inter) ||
      !absl::SimpleAtoi(head[10], &cost.bytes_intra) ||
      !absl::SimpleAtoi(head[11], &cost.bytes_local))
    return bad();
  cost.dedup = head[4];
  cost.equal = equal != 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ');
    MoePhase phase;
    if (words.size() != 6 || !absl::SimpleAtod(words[1], &phase.us) ||
        !absl::SimpleAtod(words[2], &phase.hand_us) ||
        !absl::SimpleAtod(words[3], &phase.ratio.median) ||
        !absl::SimpleAtod(words[4], &phase.ratio.low) ||
        !absl::SimpleAtod(words[5], &phase.ratio.high))
      return bad();
    phase.name = words[0];
    cost.phases.push_back(std::move(phase));
  }
  return cost;
}

}  // namespace distwrap::bench
