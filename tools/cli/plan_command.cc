#include "plan_command.h"

#include "bench/json.h"
#include "plan/comparison.h"
#include "plan/wish.h"

#include <absl/strings/str_cat.h>

#include <cstdio>

namespace distwrap::cli {
namespace {

constexpr OptionRow kOptions[] = {
    {"--mesh", "MESH", "Sizes of the axes, 2x4, or with names, dp=2,tp=4"},
    {"--shape", "N,...", "Extents of the whole tensor"},
    {"--from", "LAYOUT",
     "The layout that the tensor has: a placement for each axis, such as "
     "'P,S(0)'"},
    {"--to", "LAYOUT", "The layout that it shall have"},
    {"--item", "BYTES", "Size of an element (4)"},
    {"--mode", "MODE", "fastest, fewest_bytes or pytorch (fastest)"},
    {"--hosts", "HxR",
     "The ranks lie on H hosts, R consecutive ones on each (one host)"},
    {"--cap", "SIZE",
     "Memory between the steps that plans should keep to (16M)"},
    {"--prices", "NS,NS,NS,NS",
     "Nanoseconds to begin a collective, and for 1 KiB on a host, between "
     "hosts, and copied (1000,200,400,100)"},
    {"--backward", nullptr,
     "The plan of the gradient: from that of the --to layout to that of the "
     "--from layout"},
    {"--json", nullptr, "As JSON"},
};

constexpr CommandRow kPlan = {
    "plan", "Shows how a tensor gets from one layout to another.", kOptions,
    "Placements: R replicated, S(d) dimension d is cut, SS(d,f) strided, "
    "P(op) partial, with\nsum, avg, min, max, product, band, bor or bxor. An "
    "order of cuts that is not that of the\naxes follows the placements: "
    "'S(0),S(0) order=0:[1,0]'.\n\n"
    "No rank is started, so the mesh may have any size.\n\n"
    "Examples:\n"
    "  distwrap plan --mesh 2x4 --shape 8,6 --from 'P,S(0)' --to 'S(0),S(0)'\n"
    "  distwrap plan --mesh dp=8,tp=8 --hosts 8x8 --shape 4096,4096 \\\n"
    "    --from 'S(0),S(1)' --to 'R,S(0)' --json\n\n"
    "Exit code: 0; 1 when there is no plan; 2 for bad options."};

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap plan: %s\n", std::string(text).c_str());
  return code;
}

absl::StatusOr<PlanComparison> compare(const PlanWish& wish) {
  const auto plan_by = [&](PlanMode mode) {
    PlanOptions options = wish.options;
    options.mode = mode;
    return (wish.backward ? backward_plan : make_plan)(
        wish.shape, wish.itemsize, *wish.from, *wish.to, options);
  };
  const auto chosen = plan_by(wish.options.mode);
  if (!chosen.ok()) return chosen.status();
  const auto pytorch = plan_by(PlanMode::kPyTorch);
  if (!pytorch.ok()) return pytorch.status();
  return PlanComparison{
      .chosen = *chosen, .pytorch = *pytorch, .backward = wish.backward};
}

}  // namespace

CommandText plan_text() { return text_of(kPlan); }

int plan_command(const Words& words) {
  Typed typed;
  if (const auto code = parse(kPlan, words, &typed)) return *code;
  const absl::StatusOr<PlanWish> wish = plan_wish(typed);
  if (!wish.ok()) return complain(wish.status().message(), kUsage);
  const absl::StatusOr<PlanComparison> plans = compare(*wish);
  if (!plans.ok()) return complain(plans.status().message(), kFailed);
  const std::string text =
      typed.has("--json") ? bench::json_text(to_json(*plans)) : to_text(*plans);
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0
             ? kFailed
             : 0;
}

}  // namespace distwrap::cli
