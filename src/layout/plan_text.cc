// A plan as text. Tests compare it, so a change needs another version number.
#include "distwrap/plan.h"
#include "layout/partials.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <string>

namespace distwrap {
namespace {

constexpr int kVersion = 1;

template <class List>
std::string list(const List& numbers) {
  return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
}

absl::string_view name_of(PlanStep::Exchange kind) {
  constexpr absl::string_view kNames[] = {"permute", "all_to_all", "fetch"};
  return kNames[static_cast<size_t>(kind)];
}

std::string line_of(const PlanStep& step) {
  using Kind = PlanStep::Kind;
  std::string line(plan_step_name(step.kind));
  if (!step.axes.empty()) absl::StrAppend(&line, " g=", list(step.axes));
  if (step.kind == Kind::kReduceScatter || step.kind == Kind::kAllReduce ||
      step.kind == Kind::kFill)
    absl::StrAppend(&line, " op=", layout::partial_text(step.op, step.norm));
  if (step.kind == Kind::kExchange)
    absl::StrAppend(&line, " kind=", name_of(step.exchange));
  if (step.kind == Kind::kDivide) absl::StrAppend(&line, " by=", step.divisor);
  if (!step.dims.empty()) absl::StrAppend(&line, " d=", list(step.dims));
  if (!step.near.empty())
    absl::StrAppend(&line, " form=2level near=", list(step.near));
  absl::StrAppend(&line, " recv=", step.received, " max=", step.largest);
  return line;
}

}  // namespace

absl::string_view plan_mode_name(PlanMode mode) {
  constexpr absl::string_view kNames[] = {"fastest", "fewest_bytes", "pytorch"};
  return kNames[static_cast<size_t>(mode)];
}

absl::string_view plan_step_name(PlanStep::Kind kind) {
  constexpr absl::string_view kNames[] = {
      "slice",    "fill",       "reduce_scatter", "all_reduce",
      "exchange", "all_gather", "divide"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Plan::text() const {
  std::string text = absl::StrCat(
      "plan ", kVersion, " mesh=", list(source_->mesh().sizes),
      " shape=", list(shape_), " item=", itemsize_,
      " mode=", plan_mode_name(options_.mode), " cap=", options_.cap_bytes,
      "\nsrc=", source_->text(), " dst=", target_->text(),
      diverged_ ? " diverged=1" : "", "\n");
  for (size_t i = 0; i < steps_.size(); ++i)
    absl::StrAppend(&text, i + 1, " ", line_of(steps_[i]), "\n");
  absl::StrAppend(&text, "= collectives=", collectives(), " recv=", received(),
                  " peak=", peak_, " node=", into_host_, "\n");
  return text;
}

}  // namespace distwrap
