// Choosing a plan: candidates, their price, and the best of them.
#include "distwrap/plan.h"

#include "base/error.h"
#include "layout/moves.h"
#include "layout/partials.h"
#include "layout/peers.h"
#include "layout/plan_cache.h"
#include "layout/price.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace distwrap {

using layout::Candidate;
using layout::Draft;
using layout::Partials;
using layout::RegionCache;

namespace {

using Kind = Placement::Kind;

// At most so many replicated axes are tried in every combination.
constexpr size_t kMostSliced = 5;
constexpr size_t kMostChoices = 32;
constexpr int64_t kMostPrice = 1'000'000'000;
// A reduction, an exchange and a gather.
constexpr int kMostCollectives = 3;

absl::Status refuse(Reason reason, std::string what, std::string next_step) {
  return base::make_error({.reason = reason,
                           .what = std::move(what),
                           .next_step = std::move(next_step)});
}

}  // namespace

class PlanMaker {
 public:
  PlanMaker(absl::Span<const int64_t> shape, int64_t itemsize,
            const Layout& source, const Layout& target,
            const PlanOptions& options)
      : regions_(shape),
        itemsize_(itemsize),
        source_(source),
        target_(target),
        options_(options) {}

  absl::StatusOr<PlanRef> make() {
    const absl::StatusOr<Partials> partials =
        layout::partials_of(source_, target_);
    if (!partials.ok()) return partials.status();
    partials_ = *partials;
    const std::optional<Candidate> pytorch =
        layout::pytorch_steps(regions_, source_, target_);
    const bool follows =
        options_.mode == PlanMode::kPyTorch && pytorch.has_value();
    if (!follows) collect_all();
    // One axis after the other, an average of integers is cut off before the
    // sum over another axis.
    if (pytorch.has_value() && (follows || partials_.divisor == 1))
      found_.push_back(*pytorch);
    if (found_.empty())
      return refuse(Reason::kStrideOrder,
                    "a strided cut stands beside an axis that becomes partial",
                    "replicate the tensor first");
    if (!follows && options_.mode == PlanMode::kFewestBytes)
      add_shortest(pytorch.has_value() ? pytorch->collectives() : 0);
    if (!follows)
      for (Candidate& one : found_)
        layout::choose_levels(one, itemsize_, options_);
    return finish(best(), options_.mode == PlanMode::kPyTorch && !follows);
  }

 private:
  // Axes become partial at the end, as parts of zeros then cost nothing, or at
  // the beginning, where a cut of the target may need it.
  void collect_all() {
    Candidate begun;
    begun.at = &source_;
    const int dims = partials_.filled.empty()
                         ? 0
                         : static_cast<int>(regions_.shape().size());
    std::set<const Layout*> goals;
    for (int dim = -1; dim < dims; ++dim)
      for (const bool outside : {false, true}) {
        goal_ = layout::before_fill(source_, target_, partials_.filled,
                                    dim < 0 ? std::nullopt : std::optional(dim),
                                    outside);
        if (goal_ != nullptr && goals.insert(goal_).second) collect(begun);
      }
    if (partials_.filled.empty()) return;
    std::erase_if(found_, [&](Candidate& one) {
      return !layout::fill(one, regions_, partials_.fill_op, target_);
    });
    Draft early(source_);
    for (const int axis : partials_.filled)
      early.partial(axis, target_.placements()[static_cast<size_t>(axis)].op);
    const Layout* const filled = early.make();
    if (filled == nullptr ||
        !layout::fill(begun, regions_, partials_.fill_op, *filled))
      return;
    goal_ = &target_;
    collect(begun);
  }

  // A reduction of several axes at once counts the largest piece for every
  // rank. Of uneven pieces one axis after the other may receive a little less,
  // and so may a move to even pieces before the reduction. Such a way has no
  // more collectives than other candidates, or than PyTorch's steps.
  void add_shortest(int pytorchs_collectives) {
    if (!source_.is_partial() && !target_.is_partial()) return;
    const absl::Span<const int64_t> shape = regions_.shape();
    if (std::all_of(shape.begin(), shape.end(), [&](int64_t extent) {
          return extent % source_.ranks() == 0;
        }))
      return;
    const Candidate now = best();
    std::optional<Candidate> shortest = layout::shortest_steps(
        regions_, source_, target_, partials_, now.received(),
        std::max(kMostCollectives, pytorchs_collectives));
    if (!shortest.has_value()) return;
    divide(*shortest);
    found_.push_back(*std::move(shortest));
  }

  void collect(const Candidate& begun) {
    if (partials_.leaving.empty()) {
      add(begun);
      return;
    }
    // Axes that hold the same values may each take a share of the reduction.
    std::vector<int> replicated;
    const std::vector<Placement>& now = begun.at->placements();
    for (size_t a = 0; a < now.size(); ++a)
      if (now[a].kind == Kind::kReplicate && source_.mesh().sizes[a] > 1 &&
          replicated.size() < kMostSliced)
        replicated.push_back(static_cast<int>(a));
    for (uint32_t set = 0; set < uint32_t{1} << replicated.size(); ++set) {
      std::vector<int> sliced;
      for (size_t i = 0; i < replicated.size(); ++i)
        if ((set >> i & 1) != 0) sliced.push_back(replicated[i]);
      reduce(begun, sliced);
    }
  }

  // Adds the candidates that slice along `sliced` and reduce then.
  void reduce(const Candidate& begun, const std::vector<int>& sliced) {
    // The axes that are reduced, by whether the goal cuts them.
    std::vector<int> cut_axes, whole_axes;
    for (const int axis : partials_.leaving)
      (goal_->placements()[static_cast<size_t>(axis)].kind == Kind::kShard
           ? cut_axes
           : whole_axes)
          .push_back(axis);
    for (const std::vector<int>& slices : choices(sliced))
      for (const std::vector<int>& scatters : choices(partials_.leaving)) {
        Candidate plan = begun;
        if (!sliced.empty()) {
          const Layout* const parts = cut(*begun.at, sliced, slices);
          if (parts == nullptr) continue;
          layout::slice(plan, regions_, *parts);
        }
        Candidate merged = plan;
        const bool divides = scatter(merged, partials_.leaving, scatters);
        if (divides) add(merged);
        Candidate split = plan;
        if (!cut_axes.empty() && !whole_axes.empty() &&
            scatter(split, cut_axes, choices(cut_axes).front())) {
          reduce_whole(split, whole_axes);
          add(split);
        }
        // Reduced whole, where the target has it so or nothing else works.
        if (!divides || cut_axes.empty()) {
          reduce_whole(plan, partials_.leaving);
          add(plan);
        }
      }
  }

  // The dimensions that `axes` may cut in between: those of the goal first,
  // with dimension 0 for an axis that it does not cut. Others may have more to
  // divide, or less to move afterwards: one for all axes, and where bytes count
  // every combination, up to kMostChoices.
  std::vector<std::vector<int>> choices(const std::vector<int>& axes) const {
    const int dims = static_cast<int>(regions_.shape().size());
    std::vector<int> first;
    bool is_whole = true;
    for (const int axis : axes) {
      const Placement& wanted = goal_->placements()[static_cast<size_t>(axis)];
      const bool is_cut = wanted.kind == Kind::kShard;
      first.push_back(is_cut ? wanted.dim : 0);
      is_whole &= is_cut;
    }
    std::vector<std::vector<int>> all = {first};
    if (axes.empty() || dims == 0) return all;
    size_t count = 1;
    for (size_t i = 0; i < axes.size() && count <= kMostChoices; ++i)
      count *= static_cast<size_t>(dims);
    const bool every =
        options_.mode == PlanMode::kFewestBytes && count <= kMostChoices;
    for (int dim = 0; dim < dims && !every; ++dim) {
      std::vector<int> one = first;
      for (size_t i = 0; i < axes.size(); ++i)
        if (goal_->placements()[static_cast<size_t>(axes[i])].kind !=
            Kind::kShard)
          one[i] = dim;
      if (!is_whole) all.push_back(one);
      all.emplace_back(axes.size(), dim);
    }
    for (size_t number = 0; every && number < count; ++number) {
      std::vector<int> one;
      size_t rest = number;
      for (size_t i = 0; i < axes.size(); ++i) {
        one.push_back(static_cast<int>(rest % static_cast<size_t>(dims)));
        rest /= static_cast<size_t>(dims);
      }
      all.push_back(one);
    }
    std::sort(all.begin() + 1, all.end());
    all.erase(std::unique(all.begin() + 1, all.end()), all.end());
    return all;
  }

  // Appends the reduce_scatter of `axes`; false when no layout fits.
  bool scatter(Candidate& plan, const std::vector<int>& axes,
               const std::vector<int>& dims) {
    if (regions_.shape().empty()) return false;
    const Layout* const to = cut(*plan.at, axes, dims);
    if (to == nullptr || !layout::gathers(regions_, *to, *plan.at, axes))
      return false;
    layout::reduce_scatter(plan, regions_, axes, partials_.op, *to);
    return true;
  }

  void reduce_whole(Candidate& plan, const std::vector<int>& axes) {
    Draft whole(*plan.at);
    for (const int axis : axes) whole.replicate(axis);
    layout::all_reduce(plan, regions_, axes, partials_.op, *whole.make());
  }

  // The layout in which each of `axes` also cuts its dimension, inside of the
  // cuts that are there, in the order of the goal as far as that has it. Null
  // when there is none.
  const Layout* cut(const Layout& layout, const std::vector<int>& axes,
                    const std::vector<int>& dims) const {
    if (regions_.shape().empty() && !axes.empty()) return nullptr;
    Draft draft(layout);
    std::vector<bool> done(axes.size(), false);
    for (int d = 0; d < goal_->dims(); ++d)
      for (const Layout::Cut& one : goal_->cuts(d))
        for (size_t i = 0; i < axes.size(); ++i)
          if (axes[i] == one.axis && dims[i] == d) {
            draft.cut(one.axis, d);
            done[i] = true;
          }
    for (size_t i = 0; i < axes.size(); ++i)
      if (!done[i]) draft.cut(axes[i], dims[i]);
    return draft.make();
  }

  // Adds every way to go on to the goal.
  void add(const Candidate& begun) {
    for (Candidate& one : layout::moves(regions_, begun, *goal_)) {
      divide(one);
      found_.push_back(std::move(one));
    }
  }

  // Averages that travelled as a sum.
  void divide(Candidate& plan) {
    if (partials_.divisor == 1) return;
    plan.steps.push_back({.kind = PlanStep::Kind::kDivide,
                          .divisor = partials_.divisor,
                          .to = plan.at,
                          .largest = regions_.of(*plan.at).largest()});
  }

  Candidate best() const {
    // Candidates that keep to the memory cap come first.
    using Score =
        std::tuple<bool, int64_t, int64_t, int64_t, size_t, std::string>;
    const auto score = [&](const Candidate& one) {
      const bool is_large = one.between() > options_.cap_bytes / itemsize_;
      const int64_t price = layout::price(one, itemsize_, options_);
      const int64_t received = one.received();
      return options_.mode == PlanMode::kFewestBytes
                 ? Score(is_large, received, one.collectives(), price,
                         one.steps.size(), one.at->text())
                 : Score(is_large, price, received, one.collectives(),
                         one.steps.size(), one.at->text());
    };
    return *std::min_element(found_.begin(), found_.end(),
                             [&](const Candidate& a, const Candidate& b) {
                               return score(a) < score(b);
                             });
  }

  PlanRef finish(Candidate chosen, bool diverged) {
    std::shared_ptr<Plan> plan(new Plan());
    plan->shape_.assign(regions_.shape().begin(), regions_.shape().end());
    plan->itemsize_ = itemsize_;
    plan->source_ = &source_;
    plan->target_ = &target_;
    plan->options_ = options_;
    plan->price_ = layout::price(chosen, itemsize_, options_);
    plan->diverged_ = diverged;
    if (!source_.is_partial() && !target_.is_partial())
      plan->floor_ = layout::lacking(regions_, source_, target_);
    plan->peak_ = regions_.of(source_).largest() +
                  regions_.of(target_).largest() + chosen.between();
    plan->steps_ = std::move(chosen.steps);
    for (PlanStep& step : plan->steps_)
      if (step.op == PartialOp::kNorm) step.norm = partials_.norm;
    measure(*plan);
    return plan;
  }

  // Fills in the kinds of the exchanges, and what goes from host to host.
  void measure(Plan& plan) {
    const layout::Coordinates at(source_.mesh().sizes);
    const Layout* from = &source_;
    for (PlanStep& step : plan.steps_) {
      if (step.kind == PlanStep::Kind::kExchange)
        step.exchange = layout::exchange_kind(
            regions_.of(*from), regions_.of(*step.to), at, step.axes);
      plan.into_host_ += layout::into_host(regions_, *from, step, options_);
      from = step.to;
    }
  }

  RegionCache regions_;
  const int64_t itemsize_;
  const Layout& source_;
  const Layout& target_;
  const PlanOptions options_;
  const Layout* goal_ = nullptr;
  Partials partials_;
  std::vector<Candidate> found_;
};

int Plan::collectives() const {
  return static_cast<int>(
      std::count_if(steps_.begin(), steps_.end(),
                    [](const PlanStep& step) { return !step.axes.empty(); }));
}

int64_t Plan::received() const {
  int64_t sum = 0;
  for (const PlanStep& step : steps_) sum += step.received;
  return sum;
}

absl::StatusOr<PlanRef> make_plan(absl::Span<const int64_t> shape,
                                  int64_t itemsize, const Layout& source,
                                  const Layout& target,
                                  const PlanOptions& options) {
  PlanRef& kept = layout::plan_slot(shape, itemsize, source, target, options);
  if (layout::holds(kept, shape, itemsize, source, target, options))
    return kept;
  if (source.mesh() != target.mesh())
    return refuse(
        Reason::kMeshMismatch,
        absl::StrCat("source and target are on the meshes [",
                     absl::StrJoin(source.mesh().sizes, ","), "] and [",
                     absl::StrJoin(target.mesh().sizes, ","), "]"),
        "give two layouts of one mesh");
  if (itemsize < 1 || itemsize > 4096 || options.cap_bytes < 1 ||
      options.ranks_per_host < 0 || options.mode > PlanMode::kPyTorch)
    return refuse(
        Reason::kInvalidArgument,
        absl::StrCat("an element of ", itemsize, " bytes, a cap of ",
                     options.cap_bytes, " bytes or ", options.ranks_per_host,
                     " ranks a host are impossible"),
        "give 1 to 4096 bytes, a cap of 1 or more, and 0 or more "
        "ranks");
  for (const int64_t price : {options.prices.begin, options.prices.near,
                              options.prices.far, options.prices.copy})
    if (price < 1 || price > kMostPrice)
      return refuse(Reason::kInvalidArgument,
                    absl::StrCat("a price of ", price, " ns is impossible"),
                    "give prices from 1 ns to 1 s");
  for (const Layout* one : {&source, &target})
    if (absl::Status status = layout::check_shape(*one, shape); !status.ok())
      return status;
  absl::StatusOr<PlanRef> made =
      PlanMaker(shape, itemsize, source, target, options).make();
  if (made.ok()) kept = *made;
  return made;
}

absl::StatusOr<PlanRef> backward_plan(absl::Span<const int64_t> shape,
                                      int64_t itemsize, const Layout& source,
                                      const Layout& target,
                                      const PlanOptions& options) {
  const absl::StatusOr<const Layout*> from = cotangent(target);
  if (!from.ok()) return from.status();
  const absl::StatusOr<const Layout*> to = cotangent(source);
  if (!to.ok()) return to.status();
  return make_plan(shape, itemsize, **from, **to, options);
}

}  // namespace distwrap
