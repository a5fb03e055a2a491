#include "moe/build.h"

#include "base/error.h"
#include "moe/messages.h"
#include "moe/options.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

class Builder {
 public:
  Builder(CallPlace place, std::shared_ptr<PlanState> plan)
      : exchange_(std::move(place)),
        plan_(std::move(plan)),
        parts_(plan_->parts),
        space_(plan_->build_space) {}

  absl::Status run(TensorView routing, const MoeOptions& options);

 private:
  int ranks() const { return exchange_.size(); }
  int rank() const { return exchange_.rank(); }
  bool calls(int r) const {
    return parts_.masked.empty() || parts_.masked[at(r)] == 0;
  }

  absl::Status offer(TensorView routing, const MoeOptions& options);
  void take(const MoeOptions& options);
  absl::Status agree(const Offer& mine);
  template <class T>
  absl::StatusOr<Work> swap_equal(std::vector<T>& given, std::vector<T>* got,
                                  int64_t tag);
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
  BuildSpace& space_;
};

absl::Status Builder::run(TensorView routing, const MoeOptions& options) {
  // Each step may wait for the other ranks, so all ranks take the same steps.
  if (absl::Status status = offer(routing, options); !status.ok())
    return status;
  if (absl::Status status = exchange_lists(); !status.ok()) return status;
  if (parts_.has_verdicts()) {
    if (absl::Status status = exchange_verdicts(); !status.ok()) return status;
  } else {
    parts_.judge(&space_.dropped);
    parts_.keep_all();
  }
  parts_.lay_out();
  if (parts_.level == MoeDedup::kNode) return exchange_forward_lists();
  return absl::OkStatus();
}

absl::Status Builder::offer(TensorView routing, const MoeOptions& options) {
  if (absl::Status open = exchange_.check_open(); !open.ok()) return open;
  Offer mine;
  mine.number = next_plan_number();
  std::optional<ErrorInfo> fault = find_fault(options, ranks());
  // Ranks that do not call can be known only from options that are right.
  const bool usable = !fault.has_value();
  if (usable) {
    take(options);
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
    mine.options = plan_->options;
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
  space_.given.assign(at(ranks()), mine);
  if (mine.reason == 0 && mine.fault.token < 0)
    for (int r = 0; r < ranks(); ++r) {
      space_.given[at(r)].rows = parts_.wanted.rows_of(r);
      space_.given[at(r)].pairs = parts_.wanted.pairs_of(r);
    }
  space_.offers.assign(at(ranks()), Offer());
  const absl::StatusOr<Work> met =
      swap_equal(space_.given, &space_.offers, kPlanTag);
  if (fault.has_value()) return exchange_.error(*fault);
  if (!met.ok()) return met.status();
  return agree(mine);
}

// Options that are those of the plan before need no new tables.
void Builder::take(const MoeOptions& options) {
  MoeOptions compared = options;
  compared.validate = options.validate || checks_fully(*plan_->group);
  const uint64_t hash = hash_of(compared, plan_->group->host_of());
  if (hash != plan_->options || parts_.rank != rank() ||
      parts_.ranks() != ranks())
    apply_options(options, rank(), plan_->group->host_of(), &parts_);
  parts_.level = options.dedup;
  plan_->options = hash;
  plan_->validate = compared.validate;
}

// Gives each rank an item, and gets one from each.
template <class T>
absl::StatusOr<Work> Builder::swap_equal(std::vector<T>& given,
                                         std::vector<T>* got, int64_t tag) {
  const auto each = static_cast<int64_t>(given.size() * sizeof(T)) / ranks();
  space_.out.set_equal(ranks(), each);
  const ByteParts shape = space_.out.parts();
  return exchange_.all_to_all(
      {reinterpret_cast<uint8_t*>(got->data()), shape.counts, shape.displs},
      {reinterpret_cast<uint8_t*>(given.data()), shape.counts, shape.displs},
      tag, false);
}

// Every rank draws the same conclusion from the same offers.
absl::Status Builder::agree(const Offer& mine) {
  std::vector<Crossings>& crossings = space_.crossings;
  crossings.clear();
  int first = -1;
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    if (first < 0) first = r;
    Offer& one = space_.offers[at(r)];
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
  const Offer& leader = space_.offers[at(first)];
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    const Offer& one = space_.offers[at(r)];
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
    const Offer& one = space_.offers[at(r)];
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
    if (calls(r)) crossings.push_back(space_.offers[at(r)].crossings);
  plan_->equal_tokens = true;
  for (int r = 0; r < ranks(); ++r)
    plan_->equal_tokens &=
        calls(r) && space_.offers[at(r)].tokens == mine.tokens;
  parts_.choose_level(crossings);
  plan_->number = leader.number;
  return absl::OkStatus();
}

absl::Status Builder::exchange_lists() {
  std::vector<int64_t>&rows = space_.rows, &pairs = space_.pairs;
  rows.clear();
  pairs.clear();
  for (int r = 0; r < ranks(); ++r) {
    const Offer& one = space_.offers[at(r)];
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
    const Offer& one = space_.offers[at(r)];
    if (!calls(r)) continue;
    const std::string wrong =
        parts_.inbound.check(r, one.tokens, one.slots, parts_.buckets());
    if (!wrong.empty()) return contradiction(r, wrong);
  }
  return absl::OkStatus();
}

absl::Status Builder::swap_lists(const Lists& from, Inbound* to, int64_t tag) {
  const Lists& lists = to->lists();
  space_.out.clear();
  space_.in.clear();
  for (int r = 0; r < ranks(); ++r) {
    space_.out.add(list_bytes(from.rows_of(r), from.pairs_of(r)));
    space_.in.add(list_bytes(lists.rows_of(r), lists.pairs_of(r)));
  }
  space_.out.allocate();
  space_.in.allocate();
  for (int r = 0; r < ranks(); ++r) write_list(from, r, space_.out.at(r));
  const absl::StatusOr<Work> moved =
      exchange_.all_to_all(space_.in.parts(), space_.out.parts(), tag, false);
  if (!moved.ok()) return moved.status();
  for (int r = 0; r < ranks(); ++r) read_list(space_.in.at(r), r, &to->lists());
  return absl::OkStatus();
}

absl::Status Builder::exchange_verdicts() {
  std::vector<int64_t>& local = space_.dropped;
  const Needed mine = parts_.judge(&local);
  const Lists& inbound = parts_.inbound.lists();
  const int64_t experts = parts_.experts.count();
  const auto buckets_of = [&](int r) {
    return static_cast<int64_t>(parts_.experts.of_rank(r).size());
  };
  space_.out.clear();
  space_.in.clear();
  for (int r = 0; r < ranks(); ++r) {
    space_.out.add(calls(r)
                       ? verdict_bytes(parts_.buckets(), inbound.pairs_of(r)) +
                             8 * experts
                       : 0);
    space_.in.add(
        calls(r) ? verdict_bytes(buckets_of(r), parts_.wanted.pairs_of(r)) +
                       8 * experts
                 : 0);
  }
  space_.out.allocate();
  space_.in.allocate();
  // The pairs that this rank dropped of masked experts, then the verdict.
  space_.masked = parts_.dropped;
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    uint8_t* const to = space_.out.at(r);
    memcpy(to, space_.masked.data(), at(8 * experts));
    write_verdict(
        mine, local,
        absl::MakeConstSpan(parts_.inbound.kept())
            .subspan(at(inbound.pair_first[at(r)]), at(inbound.pairs_of(r))),
        to + 8 * experts);
  }
  const absl::StatusOr<Work> moved = exchange_.all_to_all(
      space_.in.parts(), space_.out.parts(), kPlanTag + 2, false);
  if (!moved.ok()) return moved.status();

  std::vector<uint8_t>& kept = space_.kept;
  kept.assign(at(parts_.wanted.pairs()), 0);
  Needed most;
  std::vector<int> full;
  parts_.dropped.assign(at(experts), 0);
  std::vector<int64_t>& of_masked = space_.of_masked;
  of_masked.resize(at(experts));
  int64_t overflow = 0;
  for (int r = 0; r < ranks(); ++r) {
    if (!calls(r)) continue;
    Needed needed;
    std::vector<int64_t>& of_rank = space_.of_rank;
    of_rank.assign(at(buckets_of(r)), 0);
    const uint8_t* const from = space_.in.at(r);
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
    if (own > 0 && parts_.overflow == MoeOverflow::kCapacityError)
      full.push_back(r);
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
  std::vector<int64_t>&given = space_.counts_out, &got = space_.counts_in;
  given.resize(at(2 * ranks()));
  got.assign(given.size(), 0);
  for (int r = 0; r < ranks(); ++r) {
    given[at(2 * r)] = parts_.forward.rows_of(r);
    given[at(2 * r + 1)] = parts_.forward.pairs_of(r);
  }
  const absl::StatusOr<Work> met = swap_equal(given, &got, kPlanTag + 3);
  if (!met.ok()) return met.status();
  std::vector<int64_t>&rows = space_.rows, &pairs = space_.pairs;
  rows.clear();
  pairs.clear();
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
        parts_.forwarded.check(r, space_.offers[at(r)].tokens, 1, lanes);
    if (!wrong.empty()) return contradiction(r, wrong);
  }
  if (!plan_->move_by_node())
    return contradiction(-1, "forward lists that contradict the rows");
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
