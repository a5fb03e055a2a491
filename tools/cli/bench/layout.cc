#include "bench/layout.h"

#include <algorithm>
#include <numeric>

namespace distwrap::bench {
namespace {

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::vector<int64_t> starts_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> starts;
  int64_t at = 0;
  for (int64_t count : counts) {
    starts.push_back(at);
    at += count;
  }
  return starts;
}

void set_in(Layout& layout, std::vector<int64_t> counts) {
  layout.in_count = sum(counts);
  layout.in_starts = starts_of(counts);
  layout.in_counts = std::move(counts);
}

void set_out(Layout& layout, std::vector<int64_t> counts) {
  layout.out_count = sum(counts);
  layout.out_starts = starts_of(counts);
  layout.out_counts = std::move(counts);
}

void with_counts(const Spec& spec, int64_t elements, Layout& layout) {
  const auto rank = static_cast<size_t>(spec.rank);
  if (spec.op == Operation::kAllToAllV) {
    layout.matrix = spec.pattern.counts(spec.ranks, elements);
    std::vector<int64_t> received;
    for (const auto& row : layout.matrix) received.push_back(row[rank]);
    set_in(layout, layout.matrix[rank]);
    set_out(layout, std::move(received));
    return;
  }
  const std::vector<int64_t> list = spec.pattern.list(spec.ranks, elements);
  switch (spec.op) {
    case Operation::kGatherV:
    case Operation::kAllGatherV:
      set_out(layout, list);
      layout.in_count = list[rank];
      break;
    default:  // scatter_v, reduce_scatter_v
      set_in(layout, list);
      layout.out_count = list[rank];
  }
}

}  // namespace

Layout layout_of(const Spec& spec) {
  Layout layout;
  if (spec.op == Operation::kBarrier) return layout;
  const int64_t count =
      std::max<int64_t>(1, spec.bytes / dtype_size(spec.dtype));
  const bool is_root = spec.rank == spec.root;
  layout.block = (count + spec.ranks - 1) / spec.ranks;
  const int64_t whole = layout.block * spec.ranks;
  layout.in_count = layout.out_count = count;
  if (has_counts(spec.op)) with_counts(spec, count, layout);
  switch (spec.op) {
    case Operation::kAllGather:
    case Operation::kGather:
      layout.in_count = layout.block;
      layout.out_count = whole;
      break;
    case Operation::kReduceScatter:
    case Operation::kScatter:
      layout.in_count = whole;
      layout.out_count = layout.block;
      break;
    case Operation::kAllToAll:
      layout.in_count = layout.out_count = whole;
      break;
    default:
      break;
  }
  // A rank other than the root has only one buffer.
  if (!is_root) {
    switch (spec.op) {
      case Operation::kReduce:
      case Operation::kGather:
      case Operation::kGatherV:
        layout.out_count = 0;
        break;
      case Operation::kScatter:
      case Operation::kScatterV:
        layout.in_count = 0;
        break;
      default:
        break;
    }
  }
  return layout;
}

std::vector<Traffic> traffic_of(const Spec& spec) {
  std::vector<Traffic> all;
  if (!has_counts(spec.op)) return all;
  const int64_t size = dtype_size(spec.dtype);
  Spec of = spec;
  for (of.rank = 0; of.rank < spec.ranks; ++of.rank) {
    const Layout layout = layout_of(of);
    const auto rank = static_cast<size_t>(of.rank);
    // In a rooted operation only the root keeps a piece for itself.
    int64_t self = 0;
    if (!has_root(spec.op) || of.rank == spec.root) {
      self = layout.in_counts.empty() ? layout.out_counts[rank]
                                      : layout.in_counts[rank];
    }
    all.push_back(
        {layout.in_count * size, layout.out_count * size, self * size});
  }
  return all;
}

double bus_bytes(const Spec& spec) {
  if (!has_counts(spec.op)) {
    return static_cast<double>(spec.bytes) * bus_factor(spec.op, spec.ranks);
  }
  int64_t most = 0;
  for (const Traffic& one : traffic_of(spec)) {
    most = std::max({most, one.sent - one.self, one.received - one.self});
  }
  return static_cast<double>(most);
}

int64_t moved_bytes(const Spec& spec) {
  int64_t most = 0;
  Spec of = spec;
  for (of.rank = 0; of.rank < spec.ranks; ++of.rank) {
    const Layout layout = layout_of(of);
    most = std::max({most, layout.in_count, layout.out_count});
  }
  return most * dtype_size(spec.dtype);
}

}  // namespace distwrap::bench
