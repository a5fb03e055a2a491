#include "moe/build.h"

#include "base/error.h"
#include "moe/messages.h"
#include "moe/options.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Fixed parts of `bytes` for each rank.
struct Equal {
  Equal(int ranks, int64_t bytes)
      : counts(at(ranks), bytes), displs(at(ranks)) {
    for (size_t r = 0; r < displs.size(); ++r)
      displs[r] = static_cast<int64_t>(r) * bytes;
  }
  std::vector<int64_t> counts, displs;
};

// Parts whose sizes are known by rank.
struct Sized {
  explicit Sized(std::vector<int64_t> sizes) : counts(std::move(sizes)) {
    for (const int64_t count : counts) {
      displs.push_back(total);
      total += count;
    }
  }
  std::vector<int64_t> counts, displs;
  int64_t total = 0;
};

class Builder {
 public:
  Builder(CallPlace place, std::shared_ptr<PlanState> plan)
      : exchange_(std::move(place)),
        plan_(std::move(plan)),
        parts_(plan_->parts) {}

  absl::Status run(TensorView routing, const MoeOptions& options);

 private:
  int ranks() const { return exchange_.size(); }
  int rank() const { return exchange_.rank(); }
  bool calls(int r) const {
    return parts_.masked.empty() || parts_.masked[at(r)] == 0;
  }

  absl::Status offer(TensorView routing, const MoeOptions& options);
  absl::Status agree(const Offer& mine);
  absl::Status exchange_lists();
  absl::Status exchange_verdicts();
  absl::Status exchange_forward_lists();
  // Lists of `from`, whose parts for each rank have known sizes, into `to`.
  absl::Status swap_lists(const Lists& from, Inbound* to, int64_t tag);
  // A message of another rank that cannot be: the group is no longer usable.
  absl::Status contradiction(int source, const std::string& what);

  Exchange exchange_;
  std::shared_ptr<PlanState> plan_;
  PlanParts& parts_;
  std::vector<Offer> offers_;
  std::vector<uint8_t> out_, in_;
};

absl::Status Builder::run(TensorView routing, const MoeOptions& options) {
  // Each step may wait for the other ranks, so all ranks take the same steps.
  if (absl::Status status = offer(routing, options); !status.ok())
    return status;
  if (absl::Status status = exchange_lists(); !status.ok()) return status;
  if (parts_.has_verdicts()) {
    if (absl::Status status = exchange_verdicts(); !status.ok()) return status;
  } else {
    std::vector<int64_t> none;
    parts_.judge(&none);
    parts_.keep_all();
  }
  parts_.lay_out();
  if (parts_.level == MoeDedup::kNode) return exchange_forward_lists();
  return absl::OkStatus();
}

absl::Status Builder::offer(TensorView routing, const MoeOptions& options) {
  if (absl::Status open = exchange_.check_open(); !open.ok()) return open;
  static std::atomic<int64_t> plans{0};
  Offer mine;
  mine.number = plans.fetch_add(1, std::memory_order_relaxed) % 65536;
  std::optional<ErrorInfo> fault = find_fault(options, ranks());
  // Ranks that do not call can be known only from options that are right.
  const bool usable = !fault.has_value();
  if (usable) {
    apply_options(options, rank(), plan_->group->host_of(), &parts_);
    exchange_.mask(parts_.masked);
    if (!calls(rank()))
      fault = ErrorInfo{.reason = Reason::kInvalidArgument,
                        .what = "this rank is among masked_ranks",
                        .next_step = "only ranks that are not masked call"};
    else
      fault = find_fault(routing, options);
  }
  if (usable && !calls(rank())) return exchange_.error(*fault);
  if (fault.has_value()) {
    mine.reason = static_cast<uint32_t>(fault->reason);
    const std::string text = base::cause_text(*fault);
    text.copy(mine.text, sizeof mine.text - 1);
  } else {
    plan_->id_type = routing.dtype() == DType::kI64 ? DType::kI64 : DType::kI32;
    plan_->zero_padding = options.zero_padding;
    MoeOptions compared = options;
    compared.validate = plan_->validate =
        options.validate || checks_fully(*plan_->group);
    mine.options = hash_of(compared, plan_->group->host_of());
    mine.tokens = routing.extent(0);
    mine.slots = routing.extent(1);
    mine.experts = options.num_experts;
    mine.id_type = static_cast<int64_t>(routing.dtype());
    mine.fault = read_routing(routing, options.num_experts, &parts_.routing);
    if (mine.fault.token < 0) {
      parts_.make_lists();
      mine.crossings = parts_.crossings;
    }
  }
  const Equal sizes(ranks(), sizeof(Offer));
  std::vector<Offer> given(at(ranks()), mine);
  if (mine.reason == 0 && mine.fault.token < 0)
    for (int r = 0; r < ranks(); ++r) {
      given[at(r)].rows = parts_.wanted.rows_of(r);
      given[at(r)].pairs = parts_.wanted.pairs_of(r);
    }
  offers_.assign(at(ranks()), Offer());
  const absl::StatusOr<Work> met = exchange_.all_to_all(
      {reinterpret_cast<uint8_t*>(offers_.data()), sizes.counts, sizes.displs},
      {reinterpret_cast<uint8_t*>(given.data()), sizes.counts, sizes.displs},
      kPlanTag, false);
  if (fault.has_value()) return exchange_.error(*fault);
  if (!met.ok()) return met.status();
  return agree(mine);
}

// Every rank draws the same conclusion from the same offers.
absl::Status Builder::agree(const Offer& mine) {
  std::vector<Crossings> crossings;
  int first = -1;
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    if (first < 0) first = r;
    Offer& one = offers_[at(r)];
    one.text[sizeof one.text - 1] = 0;
    if (one.magic != Offer::kMagic)
      return contradiction(r, "an offer of another version");
    if (one.reason == 0) continue;
    return exchange_.error(
        {.reason = static_cast<Reason>(one.reason),
         .what = absl::StrCat("a rank cannot take part: ", one.text),
         .ranks = {r},
         .next_step = "mend the call of that rank"});
  }
  const Offer& leader = offers_[at(first)];
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    const Offer& one = offers_[at(r)];
    const auto differ = [&](const char* what, int64_t expected,
                            int64_t actual) {
      return exchange_.error(
          {.reason = Reason::kCallMismatch,
           .what = absl::StrCat("ranks plan with different ", what),
           .ranks = {first, r},
           .expected = absl::StrCat(expected, " as on rank ", first),
           .actual = absl::StrCat(actual, " on rank ", r),
           .next_step = "give equal arguments on all ranks"});
    };
    if (one.slots != leader.slots)
      return differ("numbers of slots (K)", leader.slots, one.slots);
    if (one.experts != leader.experts)
      return differ("numbers of experts", leader.experts, one.experts);
    if (one.id_type != leader.id_type)
      return differ("types of the routing", leader.id_type, one.id_type);
    if (one.options != leader.options)
      return exchange_.error({.reason = Reason::kCallMismatch,
                              .what = "ranks plan with different options",
                              .ranks = {first, r},
                              .next_step = "give equal MoeOptions on all "
                                           "ranks, and equal nodes"});
  }
  for (int r = 0; r < ranks(); ++r) {
    const Offer& one = offers_[at(r)];
    if (!calls(r) || one.fault.token < 0) continue;
    return exchange_.error(
        {.reason = Reason::kRoutingRange,
         .what = absl::StrCat("the id in slot ", one.fault.slot, " of token ",
                              one.fault.token, " of rank ", r, " is no expert"),
         .ranks = {r},
         .expected = absl::StrCat("-1..", mine.experts - 1),
         .actual = absl::StrCat(one.fault.value),
         .next_step = "give ids of experts, and -1 for unused slots"});
  }
  for (int r = 0; r < ranks(); ++r)
    if (calls(r)) crossings.push_back(offers_[at(r)].crossings);
  parts_.choose_level(crossings);
  plan_->number = leader.number;
  return absl::OkStatus();
}

absl::Status Builder::exchange_lists() {
  std::vector<int64_t> rows, pairs;
  for (int r = 0; r < ranks(); ++r) {
    const Offer& one = offers_[at(r)];
    const bool sane = !calls(r) || (one.rows >= 0 && one.pairs >= one.rows &&
                                    one.pairs <= INT32_MAX);
    if (!sane) return contradiction(r, "an impossible number of rows");
    rows.push_back(calls(r) ? one.rows : 0);
    pairs.push_back(calls(r) ? one.pairs : 0);
  }
  parts_.inbound.resize(rows, pairs);
  if (absl::Status status =
          swap_lists(parts_.wanted, &parts_.inbound, kPlanTag + 1);
      !status.ok())
    return status;
  for (int r = 0; r < ranks(); ++r) {
    const Offer& one = offers_[at(r)];
    if (!calls(r)) continue;
    const std::string wrong =
        parts_.inbound.check(r, one.tokens, one.slots, parts_.buckets());
    if (!wrong.empty()) return contradiction(r, wrong);
  }
  return absl::OkStatus();
}

absl::Status Builder::swap_lists(const Lists& from, Inbound* to, int64_t tag) {
  std::vector<int64_t> give, get;
  const Lists& in = to->lists();
  for (int r = 0; r < ranks(); ++r) {
    give.push_back(list_bytes(from.rows_of(r), from.pairs_of(r)));
    get.push_back(list_bytes(in.rows_of(r), in.pairs_of(r)));
  }
  const Sized out(std::move(give)), back(std::move(get));
  out_.resize(at(out.total));
  in_.resize(at(back.total));
  uint8_t* end = out_.data();
  for (int r = 0; r < ranks(); ++r) end = write_list(from, r, end);
  const absl::StatusOr<Work> moved =
      exchange_.all_to_all({in_.data(), back.counts, back.displs},
                           {out_.data(), out.counts, out.displs}, tag, false);
  if (!moved.ok()) return moved.status();
  for (int r = 0; r < ranks(); ++r)
    read_list(in_.data() + back.displs[at(r)], r, &to->lists());
  return absl::OkStatus();
}

absl::Status Builder::exchange_verdicts() {
  std::vector<int64_t> local;
  const Needed mine = parts_.judge(&local);
  const Lists& inbound = parts_.inbound.lists();
  const auto buckets_of = [&](int r) {
    return static_cast<int64_t>(parts_.experts.of_rank(r).size());
  };
  std::vector<int64_t> give, get;
  for (int r = 0; r < ranks(); ++r) {
    give.push_back(calls(r)
                       ? verdict_bytes(parts_.buckets(), inbound.pairs_of(r)) +
                             8 * parts_.experts.count()
                       : 0);
    get.push_back(
        calls(r) ? verdict_bytes(buckets_of(r), parts_.wanted.pairs_of(r)) +
                       8 * parts_.experts.count()
                 : 0);
  }
  const Sized out(std::move(give)), back(std::move(get));
  out_.resize(at(out.total));
  in_.resize(at(back.total));
  // The pairs that this rank dropped of masked experts, then the verdict.
  const std::vector<int64_t> masked = parts_.dropped;
  const int64_t experts = parts_.experts.count();
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    uint8_t* const to = out_.data() + out.displs[at(r)];
    memcpy(to, masked.data(), at(8 * experts));
    write_verdict(
        mine, local,
        absl::MakeConstSpan(parts_.inbound.kept())
            .subspan(at(inbound.pair_first[at(r)]), at(inbound.pairs_of(r))),
        to + 8 * experts);
  }
  const absl::StatusOr<Work> moved = exchange_.all_to_all(
      {in_.data(), back.counts, back.displs},
      {out_.data(), out.counts, out.displs}, kPlanTag + 2, false);
  if (!moved.ok()) return moved.status();

  std::vector<uint8_t> kept(at(parts_.wanted.pairs()));
  Needed most;
  std::vector<int> full;
  parts_.dropped.assign(at(experts), 0);
  std::vector<int64_t> of_rank, of_masked(at(experts));
  int64_t overflow = 0;
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    Needed needed;
    of_rank.assign(at(buckets_of(r)), 0);
    const uint8_t* const from = in_.data() + back.displs[at(r)];
    memcpy(of_masked.data(), from, at(8 * experts));
    read_verdict(from + 8 * experts, buckets_of(r), parts_.wanted.pairs_of(r),
                 &needed, of_rank.data(),
                 kept.data() + parts_.wanted.pair_first[at(r)]);
    for (size_t e = 0; e < of_masked.size(); ++e)
      parts_.dropped[e] += of_masked[e];
    int64_t own = 0;
    for (size_t b = 0; b < of_rank.size(); ++b) {
      parts_.dropped[at(parts_.experts.of_rank(r)[b])] += of_rank[b];
      own += of_rank[b];
    }
    overflow += own;
    if (own > 0) full.push_back(r);
    most.expert = std::max(most.expert, needed.expert);
    most.rows = std::max(most.rows, needed.rows);
  }
  if (parts_.overflow == MoeOverflow::kCapacityError && overflow > 0)
    return exchange_.error(
        {.reason = Reason::kCapacity,
         .what = absl::StrCat(overflow, " pairs do not fit"),
         .ranks = full,
         .expected = absl::StrCat("expert_capacity ", most.expert,
                                  ", row_capacity ", most.rows),
         .actual = absl::StrCat("expert_capacity ", parts_.form.expert_capacity,
                                ", row_capacity ", parts_.form.row_capacity),
         .next_step = "raise the capacity, or drop with kCapacityDrop"});
  parts_.apply(kept);
  return absl::OkStatus();
}

absl::Status Builder::exchange_forward_lists() {
  parts_.make_forward_lists();
  const Equal sizes(ranks(), 16);
  std::vector<int64_t> given(at(2 * ranks())), got(at(2 * ranks()), 0);
  for (int r = 0; r < ranks(); ++r) {
    given[at(2 * r)] = parts_.forward.rows_of(r);
    given[at(2 * r + 1)] = parts_.forward.pairs_of(r);
  }
  const absl::StatusOr<Work> met = exchange_.all_to_all(
      {reinterpret_cast<uint8_t*>(got.data()), sizes.counts, sizes.displs},
      {reinterpret_cast<uint8_t*>(given.data()), sizes.counts, sizes.displs},
      kPlanTag + 3, false);
  if (!met.ok()) return met.status();
  std::vector<int64_t> rows, pairs;
  for (int r = 0; r < ranks(); ++r) {
    rows.push_back(got[at(2 * r)]);
    pairs.push_back(got[at(2 * r + 1)]);
    if (rows.back() < 0 || pairs.back() < rows.back() ||
        pairs.back() > INT32_MAX)
      return contradiction(r, "an impossible number of rows");
  }
  parts_.forwarded.resize(rows, pairs);
  if (absl::Status status =
          swap_lists(parts_.forward, &parts_.forwarded, kPlanTag + 4);
      !status.ok())
    return status;
  const auto lanes = static_cast<int64_t>(
      parts_.topology.members(parts_.topology.node_of(rank())).size());
  for (int r = 0; r < ranks(); ++r) {
    const std::string wrong =
        parts_.forwarded.check(r, offers_[at(r)].tokens, 1, lanes);
    if (!wrong.empty()) return contradiction(r, wrong);
  }
  Moves moves;
  if (!move_by_node(parts_.forward, parts_.forwarded.lists(), parts_.layout,
                    parts_.topology, rank(), &moves))
    return contradiction(-1, "forward lists that contradict the rows");
  plan_->adopt(MoeDedup::kNode, std::move(moves));
  return absl::OkStatus();
}

absl::Status Builder::contradiction(int source, const std::string& what) {
  absl::Status status = exchange_.error(
      {.reason = Reason::kIndexMap,
       .what = absl::StrCat("the lists of ranks contradict each other: ", what),
       .ranks = source < 0 ? std::vector<int>() : std::vector<int>{source},
       .next_step = "check that all ranks run the same version"});
  exchange_.place().communicator->break_by(status);
  return status;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PlanState>> build(
    CallPlace place, TensorView routing, const MoeOptions& options,
    std::shared_ptr<PlanState> reuse) {
  if (reuse == nullptr || reuse.use_count() != 1)
    reuse = std::make_shared<PlanState>();
  else
    reuse->begin_anew();
  reuse->group = place.group;
  reuse->communicator = place.communicator;
  Builder builder(std::move(place), reuse);
  if (absl::Status status = builder.run(routing, options); !status.ok())
    return status;
  return reuse;
}

}  // namespace distwrap::moe
