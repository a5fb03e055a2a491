#include "store/launch_errors.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <optional>
#include <string>
#include <vector>

namespace distwrap::store {
namespace {

using base::Environment;
using base::Setting;
using base::setting_name;

// The contradictions between launcher variables: "RANK is '3' but WORLD_SIZE is
// unset".
std::string half_pairs(const Environment& environment) {
  std::vector<std::string> found;
  for (const LauncherRow& row : all_launchers()) {
    const std::optional<std::string> rank = environment.get(row.rank);
    const std::optional<std::string> size = environment.get(row.size);
    if (rank.has_value() == size.has_value()) continue;
    found.push_back(absl::StrCat(rank.has_value() ? row.rank : row.size, " is ",
                                 rank.has_value() ? *rank : *size, " but ",
                                 rank.has_value() ? row.size : row.rank,
                                 " is unset"));
  }
  return absl::StrJoin(found, ", ");
}

std::string shown(const Candidate& candidate, const LaunchNeeds& needs) {
  const LauncherRow& row = *candidate.row;
  return absl::StrCat(
      row.title, " (",
      needs.rank ? absl::StrCat(row.rank, "=", candidate.rank) : "",
      needs.rank && needs.world_size ? ", " : "",
      needs.world_size ? absl::StrCat(row.size, "=", candidate.world_size) : "",
      ")");
}

}  // namespace

absl::Status nothing_found(const Environment& environment,
                           absl::Span<const LauncherRow> rows,
                           const LaunchNeeds& needs) {
  std::vector<std::string> names;
  for (const LauncherRow& row : rows) {
    std::vector<absl::string_view> wanted;
    if (needs.rank) wanted.push_back(row.rank);
    if (needs.world_size) wanted.push_back(row.size);
    names.push_back(
        absl::StrCat(absl::StrJoin(wanted, " and "), " (", row.title, ")"));
  }
  const std::string halves = half_pairs(environment);
  return base::make_error(
      {.reason = Reason::kLaunchMissing,
       .what = halves.empty()
                   ? std::string("no launcher gave rank and world size")
                   : halves,
       .op = "init",
       .expected = absl::StrJoin(names, ", or "),
       .next_step = halves.empty()
                        ? "start with `distwrap run -n N program`, or give "
                          "rank and world_size"
                        : "set both, or start with `distwrap run -n N "
                          "program`"});
}

absl::Status conflict(const Candidate& a, const Candidate& b,
                      const LaunchNeeds& needs) {
  return base::make_error(
      {.reason = Reason::kLauncherConflict,
       .what = absl::StrCat("two launchers give different ranks or sizes: ",
                            shown(a, needs), " and ", shown(b, needs)),
       .op = "init",
       .expected = "one of them, or a nesting that is clear",
       .next_step = absl::StrCat("set ", setting_name(Setting::kLauncher), "=",
                                 a.row->name, " or =", b.row->name)});
}

absl::Status half_local(const LauncherRow& row, bool have_rank, int value) {
  return base::make_error(
      {.reason = Reason::kLaunchMissing,
       .what = absl::StrCat(
           have_rank ? row.local_rank : row.local_size, " is ", value, " but ",
           have_rank ? row.local_size : row.local_rank, " is unset"),
       .op = "init",
       .next_step = "set both, or start with `distwrap run`"});
}

}  // namespace distwrap::store
