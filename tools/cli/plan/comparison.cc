#include "plan/comparison.h"

#include "bench/size.h"
#include "columns.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace distwrap::cli {
namespace {

std::string bytes(const Plan& plan, int64_t elements) {
  return bench::format_size(elements * plan.itemsize());
}

JsonObject json_of(const Plan& plan) {
  JsonArray steps;
  for (const PlanStep& step : plan.steps())
    steps.push_back(
        JsonObject{{"kind", plan_step_name(step.kind)},
                   {"axes", JsonArray(step.axes.begin(), step.axes.end())},
                   {"to", step.to->text()},
                   {"received_bytes", step.received * plan.itemsize()},
                   {"result_bytes", step.largest * plan.itemsize()}});
  return {{"mode", plan_mode_name(plan.options().mode)},
          {"text", plan.text()},
          {"steps", steps},
          {"collectives", plan.collectives()},
          {"received_bytes", plan.received() * plan.itemsize()},
          {"into_host_bytes", plan.into_host() * plan.itemsize()},
          {"held_bytes", plan.peak() * plan.itemsize()},
          {"estimated_ns", plan.price()},
          {"diverged", plan.diverged()}};
}

}  // namespace

std::string to_text(const PlanComparison& plans) {
  const auto row = [&](const char* name, std::string (*cell)(const Plan&)) {
    return Row{name, cell(*plans.chosen), cell(*plans.pytorch)};
  };
  std::vector<Row> rows = {
      {"", "this plan", "PyTorch's"},
      row("collectives",
          [](const Plan& plan) { return absl::StrCat(plan.collectives()); }),
      row("received, by the rank with the most",
          [](const Plan& plan) { return bytes(plan, plan.received()); })};
  if (plans.chosen->options().ranks_per_host != 0)
    rows.push_back(
        row("from other hosts, into the host with the most",
            [](const Plan& plan) { return bytes(plan, plan.into_host()); }));
  rows.push_back(
      row("held at once, by the rank with the most",
          [](const Plan& plan) { return bytes(plan, plan.peak()); }));
  rows.push_back(row("estimated time", [](const Plan& plan) {
    return absl::StrFormat("%.1f us", static_cast<double>(plan.price()) / 1000);
  }));
  std::string text =
      absl::StrCat(plans.chosen->text(), "\n", columns(rows, ""));
  if (plans.chosen->floor() >= 0)
    absl::StrAppend(&text, "floor: a rank lacks up to ",
                    bytes(*plans.chosen, plans.chosen->floor()),
                    " of its target\n");
  if (plans.pytorch->diverged())
    absl::StrAppend(&text,
                    "PyTorch's steps lose elements here or do not exist; its "
                    "column shows the fastest plan\n");
  return text;
}

JsonObject to_json(const PlanComparison& plans) {
  JsonValue floor;
  if (plans.chosen->floor() >= 0)
    floor = plans.chosen->floor() * plans.chosen->itemsize();
  return {{"schema", 1},
          {"tool", "distwrap plan"},
          {"backward", plans.backward},
          {"plan", json_of(*plans.chosen)},
          {"pytorch", json_of(*plans.pytorch)},
          {"floor_bytes", floor}};
}

}  // namespace distwrap::cli
