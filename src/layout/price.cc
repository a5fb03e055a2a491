#include "layout/price.h"

#include "layout/peers.h"

#include <algorithm>
#include <map>

namespace distwrap::layout {
namespace {

// Nanoseconds: to begin a collective, what an exchange takes more for its
// blocks, and for 1,024 bytes that a rank gets on its own host, from another
// host, or copies by itself. The figures are those of shared memory and of a
// network of 25 Gbit/s, rounded.
constexpr int64_t kBegin = 1000, kBlocks = 10;
constexpr int64_t kNear = 200, kFar = 400, kCopy = 100;

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

}  // namespace

int64_t price(const Candidate& plan, int64_t itemsize,
              const PlanOptions& options) {
  int64_t sum = 0;
  for (const PlanStep& step : plan.steps) {
    sum += time_of(step.largest * itemsize, kCopy);
    if (step.axes.empty()) continue;
    const bool far = spans_hosts(*step.to, step.axes, options.ranks_per_host);
    sum += kBegin + time_of(step.received * itemsize, far ? kFar : kNear);
    if (step.kind == PlanStep::Kind::kExchange) sum += kBlocks;
  }
  return sum;
}

int64_t into_host(RegionCache& regions, const Layout& from,
                  const PlanStep& step, const PlanOptions& options) {
  if (options.ranks_per_host == 0 || step.axes.empty()) return 0;
  const Regions &x = regions.of(from), &y = regions.of(*step.to);
  const Coordinates at(from.mesh().sizes);
  const auto host = [&](int64_t rank) { return rank / options.ranks_per_host; };
  const bool reduces = step.kind == PlanStep::Kind::kReduceScatter ||
                       step.kind == PlanStep::Kind::kAllReduce;
  std::map<int64_t, int64_t> got;
  for (int64_t rank = 0; rank < at.ranks(); ++rank)
    each_member(at, rank, step.axes, [&](int64_t member) {
      if (host(member) == host(rank)) return;
      got[host(rank)] += reduces ? y.count(rank) : common(x, member, y, rank);
    });
  int64_t most = 0;
  for (const auto& [number, count] : got) most = std::max(most, count);
  return most;
}

}  // namespace distwrap::layout
