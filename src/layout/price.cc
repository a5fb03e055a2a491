#include "layout/price.h"

#include "layout/peers.h"

#include <algorithm>
#include <map>

namespace distwrap::layout {
namespace {

// Nanoseconds that an exchange takes more for its blocks.
constexpr int64_t kBlocks = 10;

// Whether a group along `axes` has ranks of several hosts.
bool spans_hosts(const Layout& layout, absl::Span<const int> axes,
                 int64_t ranks_per_host) {
  if (ranks_per_host == 0) return false;
  const Coordinates at(layout.mesh().sizes);
  bool spans = false;
  for (int64_t rank = 0; rank < at.ranks() && !spans; ++rank)
    each_member(at, rank, axes, [&](int64_t member) {
      spans |= member / ranks_per_host != rank / ranks_per_host;
    });
  return spans;
}

int64_t time_of(int64_t bytes, int64_t ns_per_kib) {
  return bytes / 1024 * ns_per_kib + bytes % 1024 * ns_per_kib / 1024;
}

bool reduces(const PlanStep& step) {
  return step.kind == PlanStep::Kind::kReduceScatter ||
         step.kind == PlanStep::Kind::kAllReduce;
}

// The axes along which a step may have a level of its own: those of a
// reduction, or others along which the ranks need the same. Empty when ranks
// along them do not share a host.
std::vector<int> near_axes(const PlanStep& step, int64_t ranks_per_host) {
  const Layout& to = *step.to;
  std::vector<int> near;
  for (int a = 0; a < static_cast<int>(to.placements().size()); ++a) {
    const bool may = reduces(step)
                         ? std::find(step.axes.begin(), step.axes.end(), a) !=
                               step.axes.end()
                         : to.placements()[static_cast<size_t>(a)].kind ==
                               Placement::Kind::kReplicate;
    if (may && to.mesh().sizes[static_cast<size_t>(a)] > 1 &&
        !spans_hosts(to, {a}, ranks_per_host))
      near.push_back(a);
  }
  if (spans_hosts(to, near, ranks_per_host)) near.clear();
  return near;
}

int64_t price_of(const PlanStep& step, int64_t itemsize,
                 const PlanOptions& options) {
  const PlanPrices& prices = options.prices;
  const int64_t copies = time_of(step.largest * itemsize, prices.copy);
  if (step.axes.empty()) return copies;
  const auto near = [&](int64_t elements) {
    return prices.begin + time_of(elements * itemsize, prices.near);
  };
  // All ranks of a host share its network.
  const auto far = [&](int64_t elements) {
    return prices.begin +
           time_of(elements * options.ranks_per_host * itemsize, prices.far);
  };
  const int64_t blocks = step.kind == PlanStep::Kind::kExchange ? kBlocks : 0;
  if (step.near.empty())
    return copies + blocks +
           (spans_hosts(*step.to, step.axes, options.ranks_per_host)
                ? far(step.received)
                : near(step.received));
  const int64_t ranks = group_size(*step.to, step.near);
  if (!reduces(step))
    return copies + blocks + far(step.received / ranks) +
           near(step.largest / ranks * (ranks - 1));
  // A rank reduces a share with those of its host, and with other hosts.
  const int64_t hosts = group_size(*step.to, step.axes) / ranks;
  const int64_t share = step.kind == PlanStep::Kind::kAllReduce
                            ? step.largest / ranks
                            : step.largest * hosts;
  if (step.kind == PlanStep::Kind::kReduceScatter)
    return copies + near(share * (ranks - 1)) + far(step.largest * (hosts - 1));
  return copies + 2 * near(share * (ranks - 1)) +
         far(2 * share * (hosts - 1) / hosts);
}

}  // namespace

int64_t price(const Candidate& plan, int64_t itemsize,
              const PlanOptions& options) {
  int64_t sum = 0;
  for (const PlanStep& step : plan.steps)
    sum += price_of(step, itemsize, options);
  return sum;
}

void choose_levels(Candidate& plan, int64_t itemsize,
                   const PlanOptions& options) {
  if (options.ranks_per_host == 0) return;
  for (PlanStep& step : plan.steps) {
    if (!spans_hosts(*step.to, step.axes, options.ranks_per_host)) continue;
    PlanStep two = step;
    two.near = near_axes(step, options.ranks_per_host);
    if (!two.near.empty() &&
        price_of(two, itemsize, options) < price_of(step, itemsize, options))
      step = std::move(two);
  }
}

int64_t into_host(RegionCache& regions, const Layout& from,
                  const PlanStep& step, const PlanOptions& options) {
  if (options.ranks_per_host == 0 || step.axes.empty()) return 0;
  const Regions &x = regions.of(from), &y = regions.of(*step.to);
  const Coordinates at(from.mesh().sizes);
  const auto host = [&](int64_t rank) { return rank / options.ranks_per_host; };
  // In a reduction of two levels, a rank meets those with its place on other
  // hosts alone.
  std::vector<int> axes = step.axes;
  if (reduces(step))
    for (const int axis : step.near) std::erase(axes, axis);
  std::map<int64_t, int64_t> got;
  for (int64_t rank = 0; rank < at.ranks(); ++rank)
    each_member(at, rank, axes, [&](int64_t member) {
      if (host(member) == host(rank)) return;
      got[host(rank)] +=
          reduces(step) ? y.count(rank) : common(x, member, y, rank);
    });
  int64_t most = 0;
  for (const auto& [number, count] : got) most = std::max(most, count);
  // Each rank fetches, or reduces whole, its share alone.
  const bool shares =
      step.kind != PlanStep::Kind::kReduceScatter && !step.near.empty();
  return shares ? most / group_size(*step.to, step.near) : most;
}

}  // namespace distwrap::layout
