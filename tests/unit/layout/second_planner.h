// A second planner, which shares no code with the first: it rewrites the
// placement of one axis after the other on real data, and finds the cheapest
// row of rewrites by a search over all of them. Slow, and for small meshes.
#ifndef DISTWRAP_TESTS_UNIT_LAYOUT_SECOND_PLANNER_H_
#define DISTWRAP_TESTS_UNIT_LAYOUT_SECOND_PLANNER_H_

#include "distwrap/layout.h"

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace distwrap::layout {

// A layout as this planner sees it.
struct Placing {
  // By dimension: the axes that cut it, outermost first.
  std::vector<std::vector<int>> cuts;
  std::vector<int> partial;  // ascending

  friend auto operator<=>(const Placing&, const Placing&) = default;
};

class SecondPlanner {
 public:
  // By rank: the values by the flat index in the tensor, kNone where the rank
  // holds none.
  using Data = std::vector<std::vector<double>>;
  static constexpr double kNone = -1;

  // `op`: of all partial axes; kSum, kAvg or kMax.
  SecondPlanner(std::vector<int64_t> sizes, std::vector<int64_t> shape,
                PartialOp op);

  Placing random(std::mt19937& random, bool may_be_partial) const;
  const Layout& layout(const Placing& placing) const;
  // Values of all ranks: whole numbers that the sizes of meshes divide. Ranks
  // that hold the same hold equal values.
  Data random_data(const Placing& placing, std::mt19937& random) const;
  // The tensor that the data denote: gathered by all, and reduced. Nothing
  // where ranks that hold the same hold different values, or a value is
  // missing.
  std::optional<std::vector<double>> gathered(const Placing& placing,
                                              const Data& data) const;
  // The part of each rank, sliced from the whole tensor.
  Data sliced(const Placing& placing, const std::vector<double>& whole) const;
  // The most elements that a rank lacks of what it holds afterwards.
  int64_t lacking(const Placing& from, const Placing& to) const;

  // The elements that the ranks with the most receive in the steps of the
  // cheapest row of rewrites with at most so many collectives. It moves the
  // data; `end` gets the last ones. Nothing where there is no such row.
  std::optional<int64_t> cheapest(const Placing& from, const Placing& to,
                                  const Data& data, int collectives,
                                  Data* end) const;

 private:
  struct Step {
    Data data;
    int64_t received = 0;
    int collectives = 0;
  };

  int64_t coordinate(int64_t rank, int axis) const;
  // The ranks that differ from this one along the axes alone.
  std::vector<int64_t> group(int64_t rank, const std::vector<int>& axes) const;
  // The flat indices that a rank holds, ascending.
  const std::vector<int64_t>& region(const Placing& placing,
                                     int64_t rank) const;
  std::vector<int64_t> make_region(const Placing& placing, int64_t rank) const;
  Data nothing() const;
  double reduced(double a, double b) const {
    return op_ == PartialOp::kMax ? std::max(a, b) : a + b;
  }
  // All placings that differ in one axis.
  std::vector<Placing> neighbours(const Placing& placing, int axis) const;
  std::optional<Step> rewrite(const Placing& from, const Placing& to, int axis,
                              const Data& data) const;
  std::optional<Step> reduce(const Placing& to, int axis, bool is_gathered,
                             const Data& data) const;
  std::optional<Step> move(const Placing& to, int axis, const Data& data) const;
  std::optional<Step> fill(const Placing& from, const Placing& to, int axis,
                           const Data& data) const;

  const std::vector<int64_t> sizes_, shape_;
  const PartialOp op_;
  int64_t ranks_ = 1, count_ = 1;
  std::vector<std::vector<std::vector<int64_t>>> along_;  // by axis and rank
  mutable std::map<Placing, std::vector<std::vector<int64_t>>> regions_;
};

}  // namespace distwrap::layout

#endif  // DISTWRAP_TESTS_UNIT_LAYOUT_SECOND_PLANNER_H_
