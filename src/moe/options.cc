#include "moe/options.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::moe {
namespace {

using Fault = std::optional<ErrorInfo>;

Fault invalid(std::string what, std::string expected, std::string actual,
              std::string next) {
  return ErrorInfo{.reason = Reason::kInvalidArgument,
                   .what = std::move(what),
                   .expected = std::move(expected),
                   .actual = std::move(actual),
                   .next_step = std::move(next)};
}

Fault find_fault_of_experts(const MoeOptions& o, int ranks) {
  if (o.num_experts < 1 || o.num_experts > INT32_MAX)
    return invalid("num_experts is no number of experts", "1 to 2^31-1",
                   absl::StrCat(o.num_experts), "give the number of experts");
  if (o.expert_to_rank.empty()) {
    if (o.num_experts % ranks == 0) return std::nullopt;
    return invalid("the experts cannot be divided equally among the ranks",
                   absl::StrCat("a multiple of ", ranks),
                   absl::StrCat(o.num_experts),
                   "give expert_to_rank, or another number of experts");
  }
  if (static_cast<int64_t>(o.expert_to_rank.size()) != o.num_experts)
    return invalid("expert_to_rank does not name one rank for each expert",
                   absl::StrCat(o.num_experts),
                   absl::StrCat(o.expert_to_rank.size()),
                   "give a rank for each expert");
  for (size_t e = 0; e < o.expert_to_rank.size(); ++e)
    if (o.expert_to_rank[e] < 0 || o.expert_to_rank[e] >= ranks)
      return invalid(
          absl::StrCat("expert_to_rank[", e, "] is not a rank of the group"),
          absl::StrCat("0..", ranks - 1), absl::StrCat(o.expert_to_rank[e]),
          "give a rank of the group");
  return std::nullopt;
}

Fault find_fault_of_form(const MoeOptions& o) {
  const bool expert_major = o.layout == MoeLayout::kExpertMajor;
  if (o.alignment < 1 || (!expert_major && o.alignment != 1))
    return invalid("alignment is at least 1, and 1 in rank-major order",
                   expert_major ? "1 or more" : "1", absl::StrCat(o.alignment),
                   "leave alignment out, or take MoeLayout::kExpertMajor");
  const bool has_capacity = o.expert_capacity > 0 || o.row_capacity > 0;
  if (o.expert_capacity < 0 || o.row_capacity < 0 || o.max_tokens < 0)
    return invalid("a capacity is negative", "0 or more",
                   absl::StrCat(o.expert_capacity, ", ", o.row_capacity, ", ",
                                o.max_tokens),
                   "give 0 for no limit");
  if (has_capacity != (o.overflow != MoeOverflow::kExact))
    return invalid("a capacity and a policy for overflow belong together",
                   has_capacity ? "kCapacityDrop or kCapacityError"
                                : "expert_capacity or row_capacity",
                   has_capacity ? "kExact" : "no capacity",
                   "set both, or neither");
  if (o.bases == MoeBases::kFixed && (!expert_major || o.expert_capacity == 0))
    return invalid("fixed bases need expert-major order and expert_capacity",
                   "MoeLayout::kExpertMajor and a capacity",
                   absl::StrCat("expert_capacity ", o.expert_capacity),
                   "set both, or take MoeBases::kPacked");
  return std::nullopt;
}

// E * align_up(C) <= row_capacity, on the rank with the most experts.
Fault find_fault_of_capacities(const MoeOptions& o, int ranks) {
  if (o.layout != MoeLayout::kExpertMajor || o.expert_capacity == 0 ||
      o.row_capacity == 0)
    return std::nullopt;
  const Experts experts(o.num_experts, ranks, o.expert_to_rank);
  const int64_t each =
      (o.expert_capacity + o.alignment - 1) / o.alignment * o.alignment;
  size_t most = 0;
  for (int r = 0; r < ranks; ++r)
    most = std::max(most, experts.of_rank(r).size());
  const __int128 needed = static_cast<__int128>(most) * each;
  if (needed <= o.row_capacity) return std::nullopt;
  return invalid("row_capacity has no room for the capacity of all experts",
                 absl::StrCat(static_cast<int64_t>(needed), " or more"),
                 absl::StrCat(o.row_capacity),
                 "raise row_capacity, or leave one of the two out");
}

void mix(uint64_t value, uint64_t* hash) {
  // The finaliser of SplitMix64.
  uint64_t x = *hash + 0x9e3779b97f4a7c15u + value;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  *hash = x ^ (x >> 31);
}

}  // namespace

Fault find_fault(const MoeOptions& o, int ranks) {
  if (Fault fault = find_fault_of_experts(o, ranks)) return fault;
  if (Fault fault = find_fault_of_form(o)) return fault;
  if (Fault fault = find_fault_of_capacities(o, ranks)) return fault;
  for (const int rank : o.masked_ranks)
    if (rank < 0 || rank >= ranks)
      return invalid("masked_ranks names no rank of the group",
                     absl::StrCat("0..", ranks - 1), absl::StrCat(rank),
                     "give ranks of the group");
  if (!o.node_of.empty() && o.node_of.size() != static_cast<size_t>(ranks))
    return invalid("node_of does not have one number for each rank",
                   absl::StrCat(ranks), absl::StrCat(o.node_of.size()),
                   "give a node for each rank");
  return std::nullopt;
}

Fault find_fault(TensorView routing, const MoeOptions& o) {
  const DType dtype = routing.dtype();
  if (dtype != DType::kI32 && dtype != DType::kI64 && dtype != DType::kBool)
    return ErrorInfo{.reason = Reason::kMetadataType,
                     .what =
                         "the routing has an element type that is none of "
                         "ids and no map",
                     .expected = "i32, i64 or bool",
                     .actual = routing.text(),
                     .next_step = "convert the ids"};
  if (!routing.possible() || routing.dims() != 2 || !routing.contiguous() ||
      routing.device() != kCpu)
    return ErrorInfo{.reason = Reason::kMetadataType,
                     .what =
                         "the routing is no contiguous matrix in host "
                         "memory",
                     .expected = "(T,K)",
                     .actual = routing.text(),
                     .next_step = "give ids (T,K) or a map (T,X)"};
  if (routing.data() == nullptr && routing.count() > 0)
    return invalid("the routing has no memory", routing.text(), "null",
                   "give memory for all ids");
  if (routing.extent(1) < 1 || routing.count() > INT32_MAX ||
      routing.extent(0) > INT32_MAX)
    return invalid("the routing has an impossible size",
                   "1 slot or more, and fewer than 2^31 of all tokens",
                   routing.text(), "check T and K");
  if (dtype == DType::kBool && routing.extent(1) != o.num_experts)
    return invalid("the map does not have one column for each expert",
                   absl::StrCat(o.num_experts), absl::StrCat(routing.extent(1)),
                   "give a map (T,X)");
  if (o.max_tokens > 0 && routing.extent(0) > o.max_tokens)
    return invalid("there are more tokens than max_tokens",
                   absl::StrCat("at most ", o.max_tokens),
                   absl::StrCat(routing.extent(0)),
                   "raise max_tokens on all ranks");
  return std::nullopt;
}

void apply_options(const MoeOptions& o, int rank,
                   absl::Span<const int32_t> host_of, PlanParts* parts) {
  const absl::Span<const int32_t> nodes =
      o.node_of.empty() ? host_of : o.node_of;
  parts->rank = rank;
  parts->topology = Topology(nodes);
  parts->experts = Experts(o.num_experts, parts->ranks(), o.expert_to_rank);
  parts->form = {.expert_major = o.layout == MoeLayout::kExpertMajor,
                 .fixed_bases = o.bases == MoeBases::kFixed,
                 .alignment = o.alignment,
                 .expert_capacity = o.expert_capacity,
                 .row_capacity = o.row_capacity};
  parts->overflow = o.overflow;
  parts->level = o.dedup;
  parts->masked.clear();
  if (o.masked_ranks.empty()) return;
  parts->masked.assign(host_of.size(), 0);
  for (const int masked : o.masked_ranks)
    parts->masked[static_cast<size_t>(masked)] = 1;
}

RoutingFault read_routing(TensorView routing, int64_t experts, Routing* out) {
  const int64_t tokens = routing.extent(0), slots = routing.extent(1);
  switch (routing.dtype()) {
    case DType::kBool:
      out->read_map(static_cast<const uint8_t*>(routing.data()), tokens,
                    experts);
      return {};
    case DType::kI64:
      return out->read(static_cast<const int64_t*>(routing.data()), tokens,
                       slots, experts);
    default:
      return out->read(static_cast<const int32_t*>(routing.data()), tokens,
                       slots, experts);
  }
}

uint64_t hash_of(const MoeOptions& o, absl::Span<const int32_t> host_of) {
  uint64_t hash = 0;
  for (const int64_t value :
       {o.num_experts, static_cast<int64_t>(o.dedup),
        static_cast<int64_t>(o.layout), o.alignment,
        static_cast<int64_t>(o.zero_padding), static_cast<int64_t>(o.bases),
        static_cast<int64_t>(o.overflow), o.expert_capacity, o.row_capacity,
        o.max_tokens, static_cast<int64_t>(o.validate),
        static_cast<int64_t>(o.expert_to_rank.size()),
        static_cast<int64_t>(o.masked_ranks.size())})
    mix(static_cast<uint64_t>(value), &hash);
  for (const int32_t rank : o.expert_to_rank)
    mix(static_cast<uint64_t>(rank), &hash);
  for (const int rank : o.masked_ranks) mix(static_cast<uint64_t>(rank), &hash);
  for (const int32_t node : o.node_of.empty() ? host_of : o.node_of)
    mix(static_cast<uint64_t>(node), &hash);
  return hash;
}

}  // namespace distwrap::moe
