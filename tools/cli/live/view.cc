#include "live/view.h"

#include "base/error.h"
#include "columns.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace distwrap::cli {
namespace {

using comm::LiveBoard;
using comm::LiveGroup;
using comm::LiveRank;

// The state of the process, for a rank that has not reported its own.
std::string state_text(const LiveRank& rank, StateOf state_of) {
  switch (rank.state) {
    case LiveRank::State::kStarting:
      return "starting";
    case LiveRank::State::kEnded:
      return "ended";
    case LiveRank::State::kLeft:
      return "left";
    case LiveRank::State::kRuns:
      break;
  }
  return rank.is_told ? "runs" : state_of(rank.pid);
}

const char* guard_word(const LiveRank& rank) {
  constexpr const char* kWords[] = {"off", "warn", "block", "require"};
  return rank.guard >= 0 && rank.guard < 4 ? kWords[rank.guard] : "?";
}

bool guards(const LiveRank& rank) { return rank.guard != 0; }

// "block, 2 refused"; a door counts also for other sessions of its process.
std::string guard_text(const LiveRank& rank) {
  if (rank.guard == 0) return "";
  std::string text = guard_word(rank);
  if (!rank.has_door)
    absl::StrAppend(&text, ", no door");
  else if (rank.refused != 0)
    absl::StrAppend(&text, ", ", rank.refused,
                    rank.guard == 1 ? " told of" : " refused");
  return text;
}

int64_t age_ns(const LiveGroup& group, int64_t now_ns) {
  return group.since_ns == 0 || group.since_ns > now_ns
             ? 0
             : now_ns - group.since_ns;
}

std::string since(const LiveGroup& group, int64_t now_ns) {
  const int64_t ns = age_ns(group, now_ns);
  return ns == 0 ? "" : base::brief_duration(absl::Nanoseconds(ns));
}

std::string call_text(const LiveGroup& group) {
  const uint64_t shown = group.inside != 0 ? group.inside : group.last;
  if (shown == 0) return "none yet";
  return absl::StrCat(group.call.empty() ? "a call" : group.call, " #", shown,
                      group.label.empty() ? "" : " [", group.label,
                      group.label.empty() ? "" : "]");
}

std::string id_text(uint64_t id) {
  return absl::StrCat(absl::Hex(id, absl::kZeroPad16));
}

bool is_behind(const LiveGroupView& group, const LivePosition& position) {
  return position.in_group->last < group.waited;
}

std::string finding(const LiveGroupView& group) {
  if (group.waited == 0) return "nobody waits";
  std::string text;
  if (group.behind.empty())
    absl::StrAppend(&text, "all have come to #", group.waited);
  else
    absl::StrAppend(&text, "=> #", group.waited, " waits for rank",
                    group.behind.size() == 1 ? " " : "s ",
                    base::rank_list(group.behind));
  if (group.elsewhere > 0)
    absl::StrAppend(&text, "; ", group.elsewhere, " not seen");
  return text;
}

}  // namespace

std::vector<LiveGroupView> groups_of(const LiveBoard& board) {
  std::vector<LiveGroupView> groups;
  for (const LiveRank& rank : board.ranks)
    for (const LiveGroup& one : rank.groups) {
      auto group = std::find_if(
          groups.begin(), groups.end(),
          [&](const LiveGroupView& known) { return known.uid == one.uid; });
      if (group == groups.end()) {
        groups.emplace_back();
        group = groups.end() - 1;
        group->uid = one.uid;
        group->name = one.name;
        group->size = one.size;
      }
      group->ranks.push_back({&rank, &one});
      group->waited = std::max(group->waited, one.inside);
    }
  for (LiveGroupView& group : groups) {
    std::stable_sort(group.ranks.begin(), group.ranks.end(),
                     [](const LivePosition& a, const LivePosition& b) {
                       return a.in_group->rank < b.in_group->rank;
                     });
    for (const LivePosition& position : group.ranks)
      if (is_behind(group, position))
        group.behind.push_back(position.in_group->rank);
    group.elsewhere = std::max<int64_t>(
        group.size - static_cast<int64_t>(group.ranks.size()), 0);
  }
  return groups;
}

bool has_ended(const LiveBoard& board) {
  return std::all_of(
      board.ranks.begin(), board.ranks.end(), [](const LiveRank& rank) {
        return rank.is_told || rank.state == LiveRank::State::kEnded ||
               rank.state == LiveRank::State::kLeft;
      });
}

std::string to_text(const LiveBoard& board, int64_t now_ns, StateOf state_of) {
  const auto told = static_cast<size_t>(
      std::count_if(board.ranks.begin(), board.ranks.end(),
                    [](const LiveRank& rank) { return rank.is_told; }));
  std::string text = absl::StrCat(
      "job ", id_text(board.job), ": ", board.ranks.size() - told, " of ",
      board.world_size, " ranks on this host",
      told == 0 ? "" : absl::StrCat(", ", told, " told of by others"), "\n");
  const bool guarded =
      std::any_of(board.ranks.begin(), board.ranks.end(), guards);
  std::vector<Row> rows = {{"rank", "process", "host", "state"}};
  if (guarded) rows.front().push_back("direct calls");
  for (const LiveRank& rank : board.ranks) {
    rows.push_back({rank.rank < 0 ? "?" : absl::StrCat(rank.rank),
                    rank.pid == 0 ? "" : absl::StrCat(rank.pid), rank.host,
                    state_text(rank, state_of)});
    if (guarded) rows.back().push_back(guard_text(rank));
  }
  absl::StrAppend(&text, columns(rows, "  "));
  for (const LiveGroupView& group : groups_of(board)) {
    absl::StrAppend(&text, "\n", group.name, " (", group.size, " ranks)\n");
    rows = {{"rank", "process", "", "collective", "since"}};
    for (const LivePosition& position : group.ranks) {
      const LiveGroup& one = *position.in_group;
      rows.push_back({absl::StrCat(one.rank), absl::StrCat(position.rank->pid),
                      is_behind(group, position) ? "behind"
                      : one.inside != 0          ? "in"
                      : one.last != 0            ? "after"
                                                 : "",
                      call_text(one), since(one, now_ns)});
    }
    absl::StrAppend(&text, columns(rows, "  "), "  ", finding(group), "\n");
  }
  return text;
}

JsonObject to_json(const LiveBoard& board, int64_t now_ns, StateOf state_of) {
  JsonArray ranks;
  for (const LiveRank& rank : board.ranks)
    ranks.push_back(JsonObject{{"rank", int64_t{rank.rank}},
                               {"pid", rank.pid},
                               {"host", rank.host},
                               {"state", state_text(rank, state_of)},
                               {"told", rank.is_told},
                               {"guard", guard_word(rank)},
                               {"door", rank.has_door},
                               {"refused", rank.refused}});
  JsonArray groups;
  for (const LiveGroupView& group : groups_of(board)) {
    JsonArray members, behind;
    for (const LivePosition& position : group.ranks) {
      const LiveGroup& one = *position.in_group;
      members.push_back(JsonObject{{"rank", int64_t{one.rank}},
                                   {"world_rank", int64_t{position.rank->rank}},
                                   {"last", one.last},
                                   {"inside", one.inside},
                                   {"call", one.call},
                                   {"label", one.label},
                                   {"age_ns", age_ns(one, now_ns)}});
    }
    for (const int rank : group.behind) behind.emplace_back(rank);
    groups.push_back(JsonObject{{"uid", id_text(group.uid)},
                                {"name", group.name},
                                {"size", int64_t{group.size}},
                                {"ranks", members},
                                {"waited", group.waited},
                                {"behind", behind},
                                {"not_seen", group.elsewhere}});
  }
  return {{"schema", 1},
          {"tool", "distwrap info"},
          {"job", id_text(board.job)},
          {"world_size", int64_t{board.world_size}},
          {"ranks", ranks},
          {"groups", groups}};
}

}  // namespace distwrap::cli
