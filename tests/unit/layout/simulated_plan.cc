#include "unit/layout/simulated_plan.h"

#include "layout/peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace distwrap::layout {
namespace {

using Cells = std::map<int64_t, double>;  // by the flat index in the tensor

double combine(PartialOp op, double norm, double a, double b) {
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  switch (op) {
    case PartialOp::kMin:
      return std::min(a, b);
    case PartialOp::kMax:
      return std::max(a, b);
    case PartialOp::kProduct:
      return a * b;
    case PartialOp::kBand:
      return static_cast<double>(x & y);
    case PartialOp::kBor:
      return static_cast<double>(x | y);
    case PartialOp::kBxor:
      return static_cast<double>(x ^ y);
    case PartialOp::kNorm:
      return std::pow(std::pow(a, norm) + std::pow(b, norm), 1 / norm);
    case PartialOp::kSum:
    case PartialOp::kAvg:
      break;
  }
  return a + b;
}

std::vector<Cells> cells_of(const Parts& parts, const Layout& layout,
                            absl::Span<const int64_t> shape) {
  const Regions regions(layout, shape);
  std::vector<Cells> all(parts.size());
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    size_t i = 0;
    EXPECT_EQ(static_cast<int64_t>(parts[rank].size()),
              regions.count(static_cast<int64_t>(rank)));
    each_cell(regions, shape, static_cast<int64_t>(rank), [&](int64_t flat) {
      if (i < parts[rank].size()) all[rank][flat] = parts[rank][i++];
    });
  }
  return all;
}

class Run {
 public:
  Run(const Plan& plan, Parts parts)
      : plan_(plan),
        at_(plan.source().mesh().sizes),
        cells_(cells_of(parts, plan.source(), plan.shape())),
        now_(&plan.source()) {}

  Parts end() {
    for (const PlanStep& step : plan_.steps()) take(step);
    // A plan may end on another layout with the same regions.
    const Regions regions(plan_.target(), plan_.shape());
    Parts parts(cells_.size());
    for (size_t rank = 0; rank < parts.size(); ++rank)
      each_cell(regions, plan_.shape(), static_cast<int64_t>(rank),
                [&](int64_t flat) {
                  EXPECT_TRUE(cells_[rank].contains(flat)) << "rank " << rank;
                  parts[rank].push_back(cells_[rank][flat]);
                });
    return parts;
  }

 private:
  void take(const PlanStep& step) {
    const Regions regions(*step.to, plan_.shape());
    std::vector<Cells> next(cells_.size());
    for (int64_t rank = 0; rank < at_.ranks(); ++rank)
      each_cell(regions, plan_.shape(), rank, [&](int64_t flat) {
        next[static_cast<size_t>(rank)][flat] = value(step, rank, flat);
      });
    cells_ = std::move(next);
    now_ = step.to;
  }

  double value(const PlanStep& step, int64_t rank, int64_t flat) {
    const Cells& own = cells_[static_cast<size_t>(rank)];
    using Kind = PlanStep::Kind;
    if (step.kind == Kind::kDivide)
      return own.at(flat) / static_cast<double>(step.divisor);
    if (step.kind == Kind::kFill) return filled(*step.to, rank, flat);
    if (step.kind == Kind::kReduceScatter || step.kind == Kind::kAllReduce) {
      std::optional<double> sum;
      double n = 0;
      each_member(at_, rank, step.axes, [&](int64_t member) {
        const Cells& cells = cells_[static_cast<size_t>(member)];
        EXPECT_TRUE(cells.contains(flat)) << "rank " << member;
        const double one = cells.contains(flat) ? cells.at(flat) : 0;
        sum = sum ? combine(step.op, step.norm, *sum, one) : one;
        ++n;
      });
      return step.op == PartialOp::kAvg ? *sum / n : *sum;
    }
    if (own.contains(flat)) return own.at(flat);
    std::optional<double> found;
    each_member(at_, rank, step.axes, [&](int64_t member) {
      const Cells& cells = cells_[static_cast<size_t>(member)];
      if (!cells.contains(flat)) return;
      EXPECT_FALSE(found.has_value()) << "two ranks would send an element";
      found = cells.at(flat);
    });
    EXPECT_TRUE(found.has_value()) << "no rank has the element";
    return found.value_or(0);
  }

  double filled(const Layout& to, int64_t rank, int64_t flat) {
    const Cells& own = cells_[static_cast<size_t>(rank)];
    for (size_t a = 0; a < to.placements().size(); ++a) {
      const Placement &was = now_->placements()[a], &is = to.placements()[a];
      if (is.kind == Placement::Kind::kPartial &&
          was.kind == Placement::Kind::kReplicate && is.op == PartialOp::kSum &&
          at_.of(rank, static_cast<int>(a)) != 0)
        return 0;
    }
    return own.contains(flat) ? own.at(flat) : 0;
  }

  const Plan& plan_;
  const Coordinates at_;
  std::vector<Cells> cells_;
  const Layout* now_;
};

}  // namespace

void each_cell(const Regions& regions, absl::Span<const int64_t> shape,
               int64_t rank, const std::function<void(int64_t)>& f) {
  const std::function<void(int, int64_t)> go = [&](int d, int64_t flat) {
    if (d == regions.dims()) return f(flat);
    for (const Interval& one : regions.set(rank, d).intervals())
      for (int64_t i = one.begin; i < one.end; ++i)
        go(d + 1, flat * shape[static_cast<size_t>(d)] + i);
  };
  go(0, 0);
}

Parts cut(const std::vector<double>& whole, const Layout& layout,
          absl::Span<const int64_t> shape) {
  const Regions regions(layout, shape);
  Parts parts(static_cast<size_t>(layout.ranks()));
  for (size_t rank = 0; rank < parts.size(); ++rank)
    each_cell(regions, shape, static_cast<int64_t>(rank), [&](int64_t flat) {
      parts[rank].push_back(whole[static_cast<size_t>(flat)]);
    });
  return parts;
}

std::vector<double> joined(const Parts& parts, const Layout& layout,
                           absl::Span<const int64_t> shape) {
  const std::vector<Cells> cells = cells_of(parts, layout, shape);
  const Coordinates at(layout.mesh().sizes);
  std::vector<int> axes;
  PartialOp op = PartialOp::kSum;
  double divisor = 1, norm = 0;
  for (size_t a = 0; a < layout.placements().size(); ++a)
    if (const Placement& one = layout.placements()[a];
        one.kind == Placement::Kind::kPartial) {
      axes.push_back(static_cast<int>(a));
      op = one.op;
      norm = one.norm;
      if (op == PartialOp::kAvg)
        divisor *= static_cast<double>(at.size(static_cast<int>(a)));
    }
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<double> whole(static_cast<size_t>(count));
  std::vector<bool> seen(whole.size(), false);
  for (int64_t rank = 0; rank < at.ranks(); ++rank)
    for (const auto& cell : cells[static_cast<size_t>(rank)]) {
      const int64_t flat = cell.first;
      std::optional<double> sum;
      each_member(at, rank, axes, [&](int64_t member) {
        const double one = cells[static_cast<size_t>(member)].at(flat);
        sum = sum ? combine(op, norm, *sum, one) : one;
      });
      *sum /= divisor;
      const auto i = static_cast<size_t>(flat);
      EXPECT_TRUE(!seen[i] || whole[i] == *sum) << "replicas differ";
      whole[i] = *sum;
      seen[i] = true;
    }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](bool b) { return b; }));
  return whole;
}

Parts run(const Plan& plan, Parts parts) {
  return Run(plan, std::move(parts)).end();
}

}  // namespace distwrap::layout
