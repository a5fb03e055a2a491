#include "unit/layout/second_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace distwrap::layout {
namespace {

template <class Values>
auto& at(Values& data, int64_t rank, int64_t i) {
  return data[static_cast<size_t>(rank)][static_cast<size_t>(i)];
}

}  // namespace

SecondPlanner::SecondPlanner(std::vector<int64_t> sizes,
                             std::vector<int64_t> shape, PartialOp op)
    : sizes_(std::move(sizes)), shape_(std::move(shape)), op_(op) {
  for (const int64_t size : sizes_) ranks_ *= size;
  for (const int64_t extent : shape_) count_ *= extent;
  for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis) {
    along_.emplace_back();
    for (int64_t rank = 0; rank < ranks_; ++rank)
      along_.back().push_back(group(rank, {axis}));
  }
}

SecondPlanner::Data SecondPlanner::nothing() const {
  return Data(static_cast<size_t>(ranks_),
              std::vector<double>(static_cast<size_t>(count_), kNone));
}

const std::vector<int64_t>& SecondPlanner::region(const Placing& placing,
                                                  int64_t rank) const {
  std::vector<std::vector<int64_t>>& all = regions_[placing];
  if (all.empty())
    for (int64_t one = 0; one < ranks_; ++one)
      all.push_back(make_region(placing, one));
  return all[static_cast<size_t>(rank)];
}

int64_t SecondPlanner::coordinate(int64_t rank, int axis) const {
  for (size_t a = sizes_.size(); a-- > static_cast<size_t>(axis) + 1;)
    rank /= sizes_[a];
  return rank % sizes_[static_cast<size_t>(axis)];
}

std::vector<int64_t> SecondPlanner::group(int64_t rank,
                                          const std::vector<int>& axes) const {
  std::vector<int64_t> members;
  for (int64_t other = 0; other < ranks_; ++other) {
    bool is_in = true;
    for (int a = 0; a < static_cast<int>(sizes_.size()); ++a)
      is_in &= coordinate(other, a) == coordinate(rank, a) ||
               std::find(axes.begin(), axes.end(), a) != axes.end();
    if (is_in) members.push_back(other);
  }
  return members;
}

// Each cut takes the piece of the rank's coordinate from what the outer cuts
// have left; all pieces but the last ones are equal.
std::vector<int64_t> SecondPlanner::make_region(const Placing& placing,
                                                int64_t rank) const {
  std::vector<int64_t> flat = {0};
  for (size_t d = 0; d < shape_.size(); ++d) {
    std::vector<int64_t> left(static_cast<size_t>(shape_[d]));
    std::iota(left.begin(), left.end(), 0);
    for (const int axis : placing.cuts[d]) {
      const auto among = static_cast<size_t>(sizes_[static_cast<size_t>(axis)]);
      const size_t piece = (left.size() + among - 1) / among;
      const auto at = static_cast<size_t>(coordinate(rank, axis));
      const size_t begin = std::min(at * piece, left.size());
      const size_t end = std::min(begin + piece, left.size());
      left = {left.begin() + static_cast<ptrdiff_t>(begin),
              left.begin() + static_cast<ptrdiff_t>(end)};
    }
    std::vector<int64_t> next;
    for (const int64_t outer : flat)
      for (const int64_t i : left) next.push_back(outer * shape_[d] + i);
    flat = std::move(next);
  }
  return flat;
}

Placing SecondPlanner::random(std::mt19937& random, bool may_be_partial) const {
  Placing placing;
  placing.cuts.resize(shape_.size());
  std::vector<int> axes(sizes_.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  for (const int axis : axes) {
    const size_t which = random() % (shape_.size() + 2);
    if (which < shape_.size())
      placing.cuts[which].push_back(axis);
    else if (which == shape_.size() && may_be_partial)
      placing.partial.push_back(axis);
  }
  std::sort(placing.partial.begin(), placing.partial.end());
  return placing;
}

const Layout& SecondPlanner::layout(const Placing& placing) const {
  std::vector<Placement> placements(sizes_.size());
  ShardOrder order;
  for (size_t d = 0; d < shape_.size(); ++d) {
    for (const int axis : placing.cuts[d])
      placements[static_cast<size_t>(axis)] =
          Placement::shard(static_cast<int>(d));
    if (!placing.cuts[d].empty()) order[static_cast<int>(d)] = placing.cuts[d];
  }
  for (const int axis : placing.partial)
    placements[static_cast<size_t>(axis)] = Placement::partial(op_);
  const auto made = Layout::make({.sizes = sizes_}, placements, order);
  EXPECT_TRUE(made.ok()) << made.status();
  return **made;
}

SecondPlanner::Data SecondPlanner::random_data(const Placing& placing,
                                               std::mt19937& random) const {
  Data data = nothing();
  // By the coordinates along the partial axes, and the index.
  std::map<std::pair<std::vector<int64_t>, int64_t>, double> values;
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    std::vector<int64_t> part;
    for (const int axis : placing.partial)
      part.push_back(coordinate(rank, axis));
    for (const int64_t i : region(placing, rank)) {
      double& value = values[{part, i}];
      if (value == 0) value = static_cast<double>(random() % 64 + 1) * 720;
      at(data, rank, i) = value;
    }
  }
  return data;
}

std::optional<std::vector<double>> SecondPlanner::gathered(
    const Placing& placing, const Data& data) const {
  double divisor = 1;
  if (op_ == PartialOp::kAvg)
    for (const int axis : placing.partial)
      divisor *= static_cast<double>(sizes_[static_cast<size_t>(axis)]);
  std::vector<double> whole(static_cast<size_t>(count_), kNone);
  for (int64_t rank = 0; rank < ranks_; ++rank)
    for (const int64_t i : region(placing, rank)) {
      std::optional<double> value;
      for (const int64_t member : group(rank, placing.partial)) {
        const double one = at(data, member, i);
        if (one == kNone) return std::nullopt;
        value = value ? reduced(*value, one) : one;
      }
      double& there = whole[static_cast<size_t>(i)];
      if (there != kNone && there != *value / divisor) return std::nullopt;
      there = *value / divisor;
    }
  if (std::count(whole.begin(), whole.end(), kNone) != 0) return std::nullopt;
  return whole;
}

SecondPlanner::Data SecondPlanner::sliced(
    const Placing& placing, const std::vector<double>& whole) const {
  Data data = nothing();
  for (int64_t rank = 0; rank < ranks_; ++rank)
    for (const int64_t i : region(placing, rank))
      at(data, rank, i) = whole[static_cast<size_t>(i)];
  return data;
}

int64_t SecondPlanner::lacking(const Placing& from, const Placing& to) const {
  int64_t most = 0;
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<int64_t> held = region(from, rank),
                               wanted = region(to, rank);
    std::vector<int64_t> lacks;
    std::set_difference(wanted.begin(), wanted.end(), held.begin(), held.end(),
                        std::back_inserter(lacks));
    most = std::max(most, static_cast<int64_t>(lacks.size()));
  }
  return most;
}

std::vector<Placing> SecondPlanner::neighbours(const Placing& placing,
                                               int axis) const {
  Placing without = placing;
  std::erase(without.partial, axis);
  for (std::vector<int>& cuts : without.cuts) std::erase(cuts, axis);
  std::vector<Placing> all = {without};
  for (size_t d = 0; d < shape_.size(); ++d) {
    all.push_back(without);
    all.back().cuts[d].push_back(axis);
  }
  all.push_back(without);
  all.back().partial.push_back(axis);
  std::sort(all.back().partial.begin(), all.back().partial.end());
  std::erase(all, placing);
  return all;
}

std::optional<SecondPlanner::Step> SecondPlanner::rewrite(
    const Placing& from, const Placing& to, int axis, const Data& data) const {
  const auto is_partial = [axis](const Placing& placing) {
    return std::find(placing.partial.begin(), placing.partial.end(), axis) !=
           placing.partial.end();
  };
  if (is_partial(from)) {
    bool is_cut = false;
    for (const std::vector<int>& cuts : to.cuts)
      is_cut |= std::find(cuts.begin(), cuts.end(), axis) != cuts.end();
    return reduce(to, axis, !is_cut, data);
  }
  if (is_partial(to)) return fill(from, to, axis, data);
  return move(to, axis, data);
}

// Each member reduces a piece, and where the result is not cut gathers those of
// the others.
std::optional<SecondPlanner::Step> SecondPlanner::reduce(
    const Placing& to, int axis, bool is_gathered, const Data& data) const {
  Step step{nothing(), 0, 0};
  const int64_t among = sizes_[static_cast<size_t>(axis)];
  const double divisor =
      op_ == PartialOp::kAvg ? static_cast<double>(among) : 1;
  int64_t largest = 0;
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<int64_t> wanted = region(to, rank);
    largest = std::max(largest, static_cast<int64_t>(wanted.size()));
    for (const int64_t i : wanted) {
      std::optional<double> value;
      for (const int64_t member :
           along_[static_cast<size_t>(axis)][static_cast<size_t>(rank)]) {
        const double one = at(data, member, i);
        if (one == kNone) return std::nullopt;
        value = value ? reduced(*value, one) : one;
      }
      at(step.data, rank, i) = *value / divisor;
    }
  }
  const int64_t piece = is_gathered ? (largest + among - 1) / among : largest;
  step.received = (among - 1) * piece * (is_gathered ? 2 : 1);
  step.collectives = 1;
  return step;
}

// Each member gets what it lacks from the others.
std::optional<SecondPlanner::Step> SecondPlanner::move(const Placing& to,
                                                       int axis,
                                                       const Data& data) const {
  Step step{nothing(), 0, 0};
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    int64_t received = 0;
    for (const int64_t i : region(to, rank)) {
      double value = at(data, rank, i);
      if (value == kNone) {
        ++received;
        for (const int64_t member :
             along_[static_cast<size_t>(axis)][static_cast<size_t>(rank)])
          value = std::max(value, at(data, member, i));
      }
      if (value == kNone) return std::nullopt;
      at(step.data, rank, i) = value;
    }
    step.received = std::max(step.received, received);
  }
  step.collectives = step.received == 0 ? 0 : 1;
  return step;
}

// Values that become parts of sums: those of the first coordinate, or each
// piece with zeros around it.
std::optional<SecondPlanner::Step> SecondPlanner::fill(const Placing& from,
                                                       const Placing& to,
                                                       int axis,
                                                       const Data& data) const {
  if (op_ != PartialOp::kSum) return std::nullopt;
  bool was_cut = false;
  for (const std::vector<int>& cuts : from.cuts)
    was_cut |= std::find(cuts.begin(), cuts.end(), axis) != cuts.end();
  Step step{nothing(), 0, 0};
  for (int64_t rank = 0; rank < ranks_; ++rank)
    for (const int64_t i : region(to, rank)) {
      int64_t holders = 0;
      for (const int64_t member :
           along_[static_cast<size_t>(axis)][static_cast<size_t>(rank)])
        holders += at(data, member, i) == kNone ? 0 : 1;
      if (holders != (was_cut ? 1 : sizes_[static_cast<size_t>(axis)]))
        return std::nullopt;
      const double own = at(data, rank, i);
      const bool keeps =
          own != kNone && (was_cut || coordinate(rank, axis) == 0);
      at(step.data, rank, i) = keeps ? own : 0;
    }
  return step;
}

std::optional<int64_t> SecondPlanner::cheapest(const Placing& from,
                                               const Placing& to,
                                               const Data& data,
                                               int collectives,
                                               Data* end) const {
  // An axis becomes partial only where that is wanted, and then stays so:
  // otherwise a sum that shall be partial would be reduced, since a third of it
  // is cheaper to move, and made partial again.
  const auto may_change = [&to](const Placing& now, const Placing& next,
                                int axis) {
    const bool is_wanted = std::find(to.partial.begin(), to.partial.end(),
                                     axis) != to.partial.end();
    return next.partial.size() > now.partial.size()   ? is_wanted
           : next.partial.size() < now.partial.size() ? !is_wanted
                                                      : true;
  };
  // Ways to a placing, by what they receive and how many collectives they have.
  using Way = std::tuple<int64_t, int, Placing>;
  std::map<Way, Step> open;
  open[{0, 0, from}] = {data, 0, 0};
  std::map<Placing, int> fewest;
  while (!open.empty()) {
    const auto first = open.extract(open.begin());
    const auto& [received, count, now] = first.key();
    const auto there = fewest.try_emplace(now, count);
    if (!there.second && there.first->second <= count) continue;
    there.first->second = count;
    if (now == to) {
      *end = first.mapped().data;
      return received;
    }
    for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis)
      for (const Placing& next : neighbours(now, axis)) {
        if (!may_change(now, next, axis)) continue;
        std::optional<Step> step =
            rewrite(now, next, axis, first.mapped().data);
        if (!step || count + step->collectives > collectives) continue;
        step->received += received;
        step->collectives += count;
        Way way(step->received, step->collectives, next);
        open.try_emplace(std::move(way), *std::move(step));
      }
  }
  return std::nullopt;
}

}  // namespace distwrap::layout
