#include "columns.h"
#include "recordings/behind.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

namespace distwrap::cli {
namespace {

std::string age(const RankPosition& position, const RecordedOp& op) {
  return absl::StrFormat(
      "%.3g s", static_cast<double>(position.time_ns - op.submitted_ns) * 1e-9);
}

Row row_of(const RankPosition& position) {
  const std::string rank =
      position.rank >= 0 ? absl::StrCat(position.rank) : "?";
  if (!position.recorded) return {rank, "no recording"};
  const std::string last =
      position.last.has_value() ? describe(*position.last) : "none";
  const std::string state = !position.last.has_value() ? ""
                            : position.last->has_ended()
                                ? position.last->state
                                : "open for " + age(position, *position.last);
  return {rank, last, state, absl::StrCat(position.open.size(), " open"),
          absl::StrCat(position.host, " pid ", position.pid)};
}

JsonObject json_of(const RecordedOp& op, int64_t time_ns) {
  return {{"call", describe(op)},
          {"op", op.op},
          {"seq", op.seq},
          {"state", op.state},
          {"age_ns", time_ns - op.submitted_ns}};
}

JsonObject json_of(const RankPosition& position) {
  JsonObject json = {{"rank", position.rank}, {"recorded", position.recorded}};
  if (!position.recorded) return json;
  JsonArray open;
  for (const RecordedOp& op : position.open)
    open.push_back(json_of(op, position.time_ns));
  json.emplace_back("host", position.host);
  json.emplace_back("pid", position.pid);
  json.emplace_back("last",
                    position.last.has_value()
                        ? JsonValue(json_of(*position.last, position.time_ns))
                        : JsonValue());
  json.emplace_back("open", open);
  return json;
}

}  // namespace

std::string to_text(const JobRecording& job,
                    const std::vector<GroupPosition>& groups) {
  const RankRecording& any = job.ranks.front();
  std::string text = absl::StrCat("job ", any.job, ": ", job.ranks.size(),
                                  " of ", any.world_size, " ranks recorded\n");
  for (const GroupPosition& group : groups) {
    absl::StrAppend(&text, "\n", group.name, " (", group.backend, ", ",
                    group.ranks.size(), " ranks)\n");
    std::vector<Row> rows = {
        {"rank", "last collective", "state", "operations", "process"}};
    for (const RankPosition& position : group.ranks)
      rows.push_back(row_of(position));
    absl::StrAppend(&text, columns(rows, "  "));
    for (const std::string& finding : group.findings)
      absl::StrAppend(&text, "  => ", finding, "\n");
    if (group.findings.empty()) absl::StrAppend(&text, " no rank is behind\n");
  }
  if (!job.left_out.empty()) absl::StrAppend(&text, "\nleft out\n");
  for (const std::string& file : job.left_out)
    absl::StrAppend(&text, "  ", file, "\n");
  return text;
}

JsonObject to_json(const JobRecording& job,
                   const std::vector<GroupPosition>& groups) {
  JsonArray shown;
  for (const GroupPosition& group : groups) {
    JsonArray ranks;
    for (const RankPosition& position : group.ranks)
      ranks.push_back(json_of(position));
    shown.push_back(JsonObject{
        {"uid", group.uid},
        {"name", group.name},
        {"backend", group.backend},
        {"ranks", ranks},
        {"findings", JsonArray(group.findings.begin(), group.findings.end())}});
  }
  const RankRecording& any = job.ranks.front();
  return {{"schema", 1},
          {"tool", "distwrap info"},
          {"job", any.job},
          {"world_size", any.world_size},
          {"recorded", static_cast<int64_t>(job.ranks.size())},
          {"groups", shown},
          {"left_out", JsonArray(job.left_out.begin(), job.left_out.end())}};
}

}  // namespace distwrap::cli
