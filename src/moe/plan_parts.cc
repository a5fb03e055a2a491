#include "moe/plan_parts.h"

#include <algorithm>

namespace distwrap::moe {
namespace {

// The model of docs/moe.md with plausible links: bytes in a nanosecond between
// nodes and inside of one, nanoseconds of one hop, bytes of a row.
constexpr double kBetweenNodes = 12.5, kInsideNode = 40, kHop = 5000,
                 kRow = 8192;

double time_of(const Crossing& crossing, int hops) {
  return std::max(static_cast<double>(crossing.inter) * kRow / kBetweenNodes,
                  static_cast<double>(crossing.intra) * kRow / kInsideNode) +
         hops * kHop;
}

}  // namespace

void PlanParts::make_lists() {
  dropped.assign(static_cast<size_t>(experts.count()), 0);
  maker_.make(routing, experts, ranks(), masked,
              masked.empty() ? nullptr : &dropped, &wanted);
  crossings = count_crossings(wanted, topology, rank, &scratch.next);
  pairs_dropped = 0;
  for (const int64_t count : dropped) pairs_dropped += count;
}

void PlanParts::choose_level(absl::Span<const Crossings> all) {
  if (level != MoeDedup::kAuto) return;
  if (topology.nodes() == 1) {
    level = MoeDedup::kRank;
    return;
  }
  double none = 0, rank_level = 0, node = 0;
  for (const Crossings& one : all) {
    none = std::max(none, time_of(one.none, 1));
    rank_level = std::max(rank_level, time_of(one.rank, 1));
    node = std::max(node, time_of(one.node, 2));
  }
  level = rank_level <= none && rank_level <= node ? MoeDedup::kRank
          : node <= none                           ? MoeDedup::kNode
                                                   : MoeDedup::kNone;
}

Needed PlanParts::judge(std::vector<int64_t>* local) {
  local->assign(static_cast<size_t>(buckets()), 0);
  return inbound.keep(form, buckets(), local);
}

void PlanParts::apply(absl::Span<const uint8_t> kept) {
  for (const uint8_t stays : kept) pairs_dropped += stays == 0;
  drop_pairs(wanted, kept, &own);
  crossings = count_crossings(own, topology, rank, &scratch.next);
}

void PlanParts::keep_all() { own = wanted; }

}  // namespace distwrap::moe
