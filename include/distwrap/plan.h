// How a tensor gets from one layout to another: a list of steps, each of which
// is one collective of a group of ranks, or work of each rank alone.
//
// A plan is a pure function of its arguments and equal on all ranks. It knows
// no group and moves nothing; redistribute.h runs it.
//
// Threads: any. Ownership: plans are counted and never change.
//
//   absl::StatusOr<distwrap::PlanRef> plan =
//       distwrap::make_plan({8, 6}, 4, **from, **to);
//   std::cout << (*plan)->text();
#ifndef DISTWRAP_PLAN_H_
#define DISTWRAP_PLAN_H_

#include "distwrap/export.h"
#include "distwrap/layout.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap {

enum class PlanMode : uint8_t {
  kFastest,      // the lowest price
  kFewestBytes,  // the fewest received bytes, then the fewest collectives
  kPyTorch,      // the steps that PyTorch takes, one axis after the other
};

// "fastest", "fewest_bytes", "pytorch".
DISTWRAP_EXPORT absl::string_view plan_mode_name(PlanMode mode);

struct PlanStep {
  enum class Kind : uint8_t {
    kSlice,  // each rank keeps a part of its own; nothing is sent
    kFill,   // to partial: zeros where another rank has the value
    kReduceScatter,
    kAllReduce,
    kExchange,  // each rank gets the blocks that it lacks
    kAllGather,
    kDivide,  // the division of an average
  };
  enum class Exchange : uint8_t {
    kPermute,   // each rank sends to at most one other
    kAllToAll,  // each rank sends to all others of its group
    kFetch,     // anything else
  };
  Kind kind = Kind::kSlice;
  // The axes of the mesh whose coordinates vary in the group; empty when
  // nothing is sent.
  std::vector<int> axes = {};
  PartialOp op = PartialOp::kSum;        // used by reductions
  Exchange exchange = Exchange::kFetch;  // used by kExchange
  std::vector<int> dims = {};            // scattered or gathered
  double norm = 0;                       // used by kNorm, as Placement
  int64_t divisor = 1;                   // used by kDivide
  // In two levels: axes along which ranks share a host. These ranks reduce
  // before values leave the host, or each fetches a share of what all of them
  // need, so that it comes to the host once.
  std::vector<int> near = {};
  const Layout* to = nullptr;  // the layout after the step
  // Elements: received by the rank that receives the most, and the result of
  // the rank with the largest.
  int64_t received = 0, largest = 0;
};

// "slice", "fill", "reduce_scatter" and so on.
DISTWRAP_EXPORT absl::string_view plan_step_name(PlanStep::Kind kind);

class Plan;
using PlanRef = std::shared_ptr<const Plan>;

// The costs of the steps of plans, in nanoseconds: to begin a collective, and
// for 1,024 bytes that a rank gets on its own host, that a host gets from
// others, and that a rank copies. The built-in figures are those of shared
// memory and of a network of 25 Gbit/s; DeviceMesh::measure_prices gives
// others.
struct PlanPrices {
  int64_t begin = 1000;
  int64_t near = 200, far = 400, copy = 100;
  friend bool operator==(const PlanPrices&, const PlanPrices&) = default;
};

struct PlanOptions {
  PlanMode mode = PlanMode::kFastest;
  // Bytes for what lies between the steps, beside source and target. Plans that
  // need more are chosen only where no other one is left.
  int64_t cap_bytes = int64_t{16} << 20;
  // Ranks that share a host: each so many consecutive ranks of the mesh. 0:
  // all.
  int64_t ranks_per_host = 0;
  // Equal on all ranks, as all options; each from 1 to a second.
  PlanPrices prices = {};
  friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

class DISTWRAP_EXPORT Plan {
 public:
  absl::Span<const int64_t> shape() const { return shape_; }
  int64_t itemsize() const { return itemsize_; }
  const Layout& source() const { return *source_; }
  const Layout& target() const { return *target_; }
  const PlanOptions& options() const { return options_; }
  const std::vector<PlanStep>& steps() const { return steps_; }
  // The number of steps that communicate.
  int collectives() const;
  // Elements, of the rank with the most: received in all, and held at once.
  int64_t received() const;
  int64_t peak() const { return peak_; }
  // Elements that the host with the most gets from other hosts.
  int64_t into_host() const { return into_host_; }
  // The most elements of the target that a rank does not hold: every plan
  // receives as many. -1 with partial axes.
  int64_t floor() const { return floor_; }
  // Whether PyTorch's steps give another result, so that this plan is the
  // fastest in their place.
  bool diverged() const { return diverged_; }
  // The estimated time in nanoseconds by the prices of the options.
  int64_t price() const { return price_; }
  // The plan as text, equal on all ranks and in all runs
  // (docs/redistribution.md).
  std::string text() const;

 private:
  friend class PlanMaker;
  Plan() = default;

  std::vector<int64_t> shape_;
  int64_t itemsize_ = 1;
  const Layout* source_ = nullptr;
  const Layout* target_ = nullptr;
  PlanOptions options_;
  std::vector<PlanStep> steps_;
  int64_t peak_ = 0, into_host_ = 0, floor_ = -1, price_ = 0;
  bool diverged_ = false;
};

// The plan for a tensor of `shape` whose elements have `itemsize` bytes. A
// thread remembers the plans that it has made last.
// kMeshMismatch: layouts on different meshes. kPlacement: a tensor of too few
// dimensions. kPartialTarget: P(x) to P(y), S to other partials than P(sum), R
// to products, norms and bitwise partials. kStrideOrder: a
// strided cut of a dimension of which an axis becomes partial.
// kInvalidArgument: impossible shapes and options.
DISTWRAP_EXPORT absl::StatusOr<PlanRef> make_plan(
    absl::Span<const int64_t> shape, int64_t itemsize, const Layout& source,
    const Layout& target, const PlanOptions& options = {});

// The plan for the gradient of what a plan from `source` to `target` gives:
// from the layout of the target's gradient to that of the source's (cotangent).
// Errors: as make_plan, and kPartialState for partials that have no gradient.
DISTWRAP_EXPORT absl::StatusOr<PlanRef> backward_plan(
    absl::Span<const int64_t> shape, int64_t itemsize, const Layout& source,
    const Layout& target, const PlanOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_PLAN_H_
