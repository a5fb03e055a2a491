#include "store/launch_info.h"

#include "base/error.h"
#include "base/nearest.h"
#include "store/launch_errors.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <optional>
#include <utility>

namespace distwrap::store {
namespace {

using base::Environment;
using base::Setting;
using base::setting_name;

constexpr int kMaxWorldSize = 1 << 20;

constexpr LauncherRow kRows[] = {
#define DW_LAUNCHER(name, enumerator, title, rank, size, local_rank, \
                    local_size, node, nodes, restarts, job)          \
  {Launcher::enumerator, #name, title, rank,     size, local_rank,   \
   local_size,           node,  nodes, restarts, job},
#include "store/launchers.def"
};

absl::Status invalid(std::string what, std::string expected,
                     absl::string_view actual, std::string next_step) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = "init",
                           .expected = std::move(expected),
                           .actual = absl::StrCat("'", actual, "'"),
                           .next_step = std::move(next_step)});
}

bool is_set(const Environment& environment, absl::string_view name) {
  return !name.empty() && environment.get(name).has_value();
}

bool has_all(const Environment& environment, const LauncherRow& row,
             const LaunchNeeds& needs) {
  return (!needs.rank || is_set(environment, row.rank)) &&
         (!needs.world_size || is_set(environment, row.size));
}

// Reads rank and size from the variables of a row, which are set.
absl::StatusOr<Candidate> read_place(const Environment& environment,
                                     const LauncherRow& row,
                                     const LaunchNeeds& needs) {
  Candidate result{.row = &row};
  if (needs.rank) {
    const absl::StatusOr<std::optional<int>> rank =
        environment.get_int(row.rank, 0, kMaxWorldSize - 1);
    if (!rank.ok()) return rank.status();
    result.rank = rank->value_or(-1);
  }
  if (needs.world_size) {
    const absl::StatusOr<std::optional<int>> size =
        environment.get_int(row.size, 1, kMaxWorldSize);
    if (!size.ok()) return size.status();
    result.world_size = size->value_or(0);
  }
  if (needs.rank && needs.world_size && result.rank >= result.world_size)
    return invalid(absl::StrCat(row.rank, " is not below ", row.size),
                   absl::StrCat("0 <= ", row.rank, " < ", result.world_size),
                   absl::StrCat(result.rank),
                   absl::StrCat("correct ", row.rank, " or ", row.size));
  return result;
}

bool is_decisive(Launcher launcher) {
  return launcher == Launcher::kOwn || launcher == Launcher::kTorchrun;
}

// Whether two launchers cannot belong to the same start, or cannot be shown to.
// Open MPI and PMI do not set each other's variables, so the ranks of two jobs
// inside a third one may agree by chance.
bool in_conflict(const Candidate& a, const Candidate& b) {
  if (a.rank != b.rank || a.world_size != b.world_size) return true;
  const bool strangers = (a.row->launcher == Launcher::kOmpi ||
                          a.row->launcher == Launcher::kPmix) &&
                         b.row->launcher == Launcher::kPmi;
  return strangers && a.world_size != 1;
}

// The rows that DISTWRAP_LAUNCHER selects.
absl::StatusOr<absl::Span<const LauncherRow>> chosen_rows(
    const Environment& environment) {
  const std::string name = environment.get_or_default(Setting::kLauncher);
  if (name == "auto") return absl::MakeConstSpan(kRows);
  std::vector<std::string> known = {"auto"};
  for (const LauncherRow& row : kRows) {
    if (row.name == name) return absl::MakeConstSpan(&row, 1);
    known.emplace_back(row.name);
  }
  return invalid(
      absl::StrCat(setting_name(Setting::kLauncher), " is not usable"),
      absl::StrJoin(known, ", "), name,
      absl::StrCat("did you mean '",
                   base::nearest(absl::AsciiStrToLower(name), known), "'?"));
}

// Fills a LaunchInfo and notes the origin of each value.
class Reader {
 public:
  Reader(const Environment& environment, LaunchInfo* info)
      : environment_(environment), info_(*info) {}

  void note(absl::string_view name, absl::string_view value,
            absl::string_view origin) {
    info_.facts.push_back(
        {std::string(name), std::string(value), std::string(origin)});
  }
  absl::Status number(absl::string_view name, absl::string_view variable,
                      int least, int* value) {
    const absl::StatusOr<std::optional<int>> read =
        environment_.get_int(variable, least, kMaxWorldSize);
    if (!read.ok()) return read.status();
    if (!read->has_value()) return absl::OkStatus();
    *value = **read;
    note(name, absl::StrCat(*value), variable);
    return absl::OkStatus();
  }
  void text(absl::string_view name, absl::string_view variable,
            std::string* value) {
    *value = environment_.get(variable).value_or(std::string());
    if (!value->empty()) note(name, *value, variable);
  }

  // The identity is made of the first list whose variables are all set.
  void job_id(absl::string_view lists) {
    for (const absl::string_view list : absl::StrSplit(lists, '|')) {
      std::vector<std::string> values;
      const std::vector<std::string> names = absl::StrSplit(list, ' ');
      for (const std::string& name : names)
        if (auto value = environment_.get(name)) values.push_back(*value);
      if (values.size() != names.size()) continue;
      info_.job_id = absl::StrJoin(values, "/");
      return note("job id", info_.job_id, absl::StrJoin(names, ", "));
    }
  }
  // Without an identity, the master's address serves as a name, because no
  // other job uses it at the same time.
  void job_id_of_master() {
    info_.job_id = master_address(environment_);
    if (info_.job_id.empty()) return;
    note("job id", info_.job_id, "MASTER_ADDR, MASTER_PORT");
  }

 private:
  const Environment& environment_;
  LaunchInfo& info_;
};

absl::Status read_local(const LauncherRow& row, Reader* reader,
                        LaunchInfo* info) {
  for (const auto& [name, variable, least, value] :
       {std::make_tuple("local rank", row.local_rank, 0, &info->local_rank),
        std::make_tuple("local size", row.local_size, 1,
                        &info->local_world_size),
        std::make_tuple("node", row.node, 0, &info->node_rank),
        std::make_tuple("nodes", row.nodes, 1, &info->node_count),
        std::make_tuple("restarts", row.restarts, 0, &info->restarts)})
    if (absl::Status status = reader->number(name, variable, least, value);
        !status.ok())
      return status;
  const bool have_rank = info->local_rank >= 0;
  const bool have_size = info->local_world_size > 0;
  if (row.launcher == Launcher::kOwn && have_rank != have_size)
    return half_local(row, have_rank,
                      have_rank ? info->local_rank : info->local_world_size);
  if (have_rank && have_size && info->local_rank >= info->local_world_size)
    return invalid(
        absl::StrCat(row.local_rank, " is not below ", row.local_size),
        absl::StrCat("0 <= ", row.local_rank, " < ", info->local_world_size),
        absl::StrCat(info->local_rank),
        absl::StrCat("correct ", row.local_rank, " or ", row.local_size));
  if (have_size && info->world_size > 0 &&
      info->local_world_size > info->world_size)
    return invalid(absl::StrCat(row.local_size, " is above ", row.size),
                   absl::StrCat("at most ", info->world_size),
                   absl::StrCat(info->local_world_size),
                   absl::StrCat("correct ", row.local_size, " or ", row.size));
  // Without other facts, the job runs on one host.
  if (info->node_count <= 1) {
    if (!have_size) info->local_world_size = info->world_size;
    if (!have_rank) info->local_rank = info->rank;
  }
  return absl::OkStatus();
}

LaunchInfo::Ignored ignored_one(const Candidate& candidate,
                                const LaunchInfo& info) {
  LaunchInfo::Ignored result{
      .launcher = std::string(candidate.row->name),
      .launcher_title = std::string(candidate.row->title),
      .rank = candidate.rank,
      .world_size = candidate.world_size};
  const bool same =
      candidate.rank == info.rank && candidate.world_size == info.world_size;
  const int node = info.node_count > 0 ? info.node_rank : 0;
  const int nodes = info.node_count > 0 ? info.node_count : 1;
  result.describes_node =
      same || (candidate.rank == node && candidate.world_size == nodes);
  return result;
}

absl::StatusOr<LaunchInfo> describe(const Environment& environment,
                                    const std::vector<Candidate>& candidates,
                                    const LaunchNeeds& needs) {
  const Candidate& chosen = candidates.front();
  const LauncherRow& row = *chosen.row;
  LaunchInfo info;
  info.launcher = std::string(row.name);
  info.launcher_title = std::string(row.title);
  info.rank = chosen.rank;
  info.world_size = chosen.world_size;
  Reader reader(environment, &info);
  if (needs.rank) reader.note("rank", absl::StrCat(info.rank), row.rank);
  if (needs.world_size)
    reader.note("world size", absl::StrCat(info.world_size), row.size);
  if (absl::Status status = read_local(row, &reader, &info); !status.ok())
    return status;

  // `distwrap run` around another launcher has set the identity of its own job;
  // the ranks of the inner job must not meet under it.
  const LauncherRow& own = kRows[0];
  const bool foreign = row.launcher != Launcher::kOwn &&
                       is_set(environment, own.rank) &&
                       is_set(environment, own.size);
  if (!foreign) {
    reader.text("store", setting_name(Setting::kStore), &info.store_address);
    reader.job_id(own.job);
  }
  if (info.job_id.empty()) reader.job_id(row.job);
  if (info.job_id.empty()) reader.job_id_of_master();
  for (size_t i = 1; i < candidates.size(); ++i)
    info.ignored.push_back(ignored_one(candidates[i], info));
  return info;
}

}  // namespace

absl::Span<const LauncherRow> all_launchers() { return kRows; }

std::string master_address(const Environment& environment) {
  const std::optional<std::string> port = environment.get("MASTER_PORT");
  if (!port.has_value()) return {};
  return absl::StrCat(environment.get("MASTER_ADDR").value_or("localhost"), ":",
                      *port);
}

bool LaunchInfo::has_several_hosts() const {
  return node_count > 1 ||
         (local_world_size > 0 && local_world_size < world_size);
}

absl::StatusOr<LaunchInfo> detect_launch(const Environment& environment,
                                         const LaunchNeeds& needs) {
  const absl::StatusOr<absl::Span<const LauncherRow>> rows =
      chosen_rows(environment);
  if (!rows.ok()) return rows.status();
  std::vector<Candidate> candidates;
  for (const LauncherRow& row : *rows) {
    if (!has_all(environment, row, needs)) continue;
    const absl::StatusOr<Candidate> candidate =
        read_place(environment, row, needs);
    // Invalid values of a launcher that is not used do no harm.
    const bool decided =
        !candidates.empty() && is_decisive(candidates.front().row->launcher);
    if (!candidate.ok()) {
      if (decided) continue;
      return candidate.status();
    }
    candidates.push_back(*candidate);
  }
  if (candidates.empty()) return nothing_found(environment, *rows, needs);
  const Candidate& first = candidates.front();
  if (!is_decisive(first.row->launcher))
    for (const Candidate& other : candidates)
      if (other.row != first.row && other.row->launcher != Launcher::kSlurm &&
          in_conflict(first, other))
        return conflict(first, other, needs);
  return describe(environment, candidates, needs);
}

}  // namespace distwrap::store
