// Building the steps of a plan, from layout to layout.
//
// Threads: none shared. Ownership: a value.
#ifndef DISTWRAP_SRC_LAYOUT_STEPS_H_
#define DISTWRAP_SRC_LAYOUT_STEPS_H_

#include "distwrap/plan.h"
#include "layout/regions.h"

#include <absl/types/span.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace distwrap::layout {

// The regions of the layouts that one planning meets, each made once.
class RegionCache {
 public:
  explicit RegionCache(absl::Span<const int64_t> shape)
      : shape_(shape.begin(), shape.end()) {}
  const Regions& of(const Layout& layout);
  absl::Span<const int64_t> shape() const { return shape_; }

 private:
  std::vector<int64_t> shape_;
  std::map<const Layout*, std::unique_ptr<Regions>> known_;
};

// A candidate plan: its steps, and the layout that they reach.
struct Candidate {
  std::vector<PlanStep> steps;
  const Layout* at = nullptr;  // the layout after the last step

  int64_t received() const;
  int collectives() const;
  // The most elements that a rank holds beside source and target.
  int64_t between() const;
};

// A layout by its parts: placements, and the cuts of each dimension with their
// order.
class Draft {
 public:
  explicit Draft(const Layout& layout);
  // The axis cuts the dimension, inside or outside of all cuts so far.
  Draft& cut(int axis, int dim, int64_t factor = 1);
  Draft& cut_outside(int axis, int dim, int64_t factor = 1);
  // The axis cuts nothing and is not partial.
  Draft& replicate(int axis);
  Draft& partial(int axis, PartialOp op);
  const Layout* make() const;

 private:
  void forget(int axis);
  MeshShape mesh_;
  std::vector<Placement> placements_;
  std::vector<std::vector<int>> order_;  // by dimension
};

// The number of ranks of a group along these axes.
int64_t group_size(const Layout& layout, absl::Span<const int> axes);

// Appends the step that slices to `to`.
void slice(Candidate& plan, RegionCache& regions, const Layout& to);
// Appends a reduction of the partial axes `axes`; `to` cuts them, or replicates
// them for an all_reduce.
void reduce_scatter(Candidate& plan, RegionCache& regions,
                    std::vector<int> axes, PartialOp op, const Layout& to);
void all_reduce(Candidate& plan, RegionCache& regions, std::vector<int> axes,
                PartialOp op, const Layout& to);
// Appends the gather of the axes that `to` no longer cuts.
void all_gather(Candidate& plan, RegionCache& regions, std::vector<int> axes,
                const Layout& to);
// Appends the exchange after which each rank holds its region of `to`.
void exchange(Candidate& plan, RegionCache& regions, const Layout& to);

// Appends the step after which axes are partial that were not. False, and
// nothing is appended, when a rank would lose elements.
bool fill(Candidate& plan, RegionCache& regions, PartialOp op,
          const Layout& to);

// The most elements of its region of `to` that a rank lacks by `from`.
int64_t lacking(RegionCache& regions, const Layout& from, const Layout& to);
// Whether a gather along `axes` of what the ranks hold by `from` gives `to`.
bool gathers(RegionCache& regions, const Layout& from, const Layout& to,
             absl::Span<const int> axes);
// The axes whose coordinate differs between a rank and some rank from which it
// needs elements.
std::vector<int> crossed_axes(RegionCache& regions, const Layout& from,
                              const Layout& to);

}  // namespace distwrap::layout

#endif  // DISTWRAP_SRC_LAYOUT_STEPS_H_
