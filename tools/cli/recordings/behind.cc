#include "recordings/behind.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace distwrap::cli {
namespace {

// A group as one rank saw it.
struct GroupOfRank {
  const RankRecording* recording;
  const RecordedMember* member;
};

std::string seconds(int64_t ns) {
  return absl::StrFormat("%.3g s",
                         static_cast<double>(std::max<int64_t>(ns, 0)) * 1e-9);
}

std::string rank_names(const std::vector<int64_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks, ", "));
}

const char* verb(const std::vector<int64_t>& ranks, const char* one,
                 const char* more) {
  return ranks.size() == 1 ? one : more;
}

// The fields that must be equal on all ranks.
auto terms(const RecordedOp& op) {
  const bool counted = op.op == "all_reduce" || op.op == "reduce" ||
                       op.op == "scan" || op.op == "broadcast";
  return std::make_tuple(op.op, op.dtype, op.reduce, op.peer,
                         !counted               ? int64_t{0}
                         : op.op == "broadcast" ? op.out
                                                : op.in);
}

// The collectives of one rank in one group, by sequence number.
std::map<int64_t, const RecordedOp*> collectives(const GroupOfRank& part) {
  std::map<int64_t, const RecordedOp*> by_seq;
  for (const RecordedOp& op : part.recording->operations)
    if (op.group == part.member->group && op.seq > 0) by_seq[op.seq] = &op;
  return by_seq;
}

RankPosition position_of(const GroupOfRank& part) {
  RankPosition position{.rank = part.recording->rank,
                        .recorded = true,
                        .host = part.recording->host,
                        .pid = part.recording->pid,
                        .time_ns = part.recording->time_ns,
                        .last = {},
                        .open = {}};
  for (const RecordedOp& op : part.recording->operations) {
    if (op.group != part.member->group) continue;
    if (op.seq > 0 &&
        (!position.last.has_value() || op.seq > position.last->seq))
      position.last = op;
    if (!op.has_ended()) position.open.push_back(op);
  }
  return position;
}

class Findings {
 public:
  Findings(const GroupPosition& group, const std::vector<GroupOfRank>& parts)
      : group_(group), parts_(parts) {}

  std::vector<std::string> all() {
    find_differing();
    find_behind();
    find_waiting_messages();
    find_failed();
    find_unrecorded();
    return std::move(found_);
  }

 private:
  void find_unrecorded() {
    std::vector<int64_t> ranks;
    for (size_t i = 0; i < group_.ranks.size(); ++i)
      if (!group_.ranks[i].recorded)
        ranks.push_back(group_.ranks[i].rank >= 0 ? group_.ranks[i].rank
                                                  : static_cast<int64_t>(i));
    if (!ranks.empty())
      found_.push_back(absl::StrCat("no recording of ", rank_names(ranks)));
  }

  void find_behind() {
    const RecordedOp* furthest = nullptr;
    for (const RankPosition& position : group_.ranks)
      if (position.last.has_value() &&
          (furthest == nullptr || position.last->seq > furthest->seq))
        furthest = &*position.last;
    if (furthest == nullptr) return;
    std::vector<int64_t> there;
    int64_t since = furthest->submitted_ns, latest = 0;
    for (const RankPosition& position : group_.ranks) {
      latest = std::max(latest, position.time_ns);
      if (!position.last.has_value() || position.last->seq < furthest->seq)
        continue;
      there.push_back(position.rank);
      since = std::min(since, position.last->submitted_ns);
    }
    for (const RankPosition& position : group_.ranks) {
      if (!position.recorded) continue;
      const int64_t seq = position.last.has_value() ? position.last->seq : 0;
      if (seq >= furthest->seq) continue;
      found_.push_back(absl::StrCat(
          rank_names({position.rank}), " is ", furthest->seq - seq,
          " behind: ", rank_names(there), verb(there, " has", " have"),
          " called ", describe(*furthest), ", ", seconds(latest - since),
          " before the end; its last call was ",
          !position.last.has_value()
              ? "none"
              : absl::StrCat(describe(*position.last), ", ",
                             position.last->has_ended() ? position.last->state
                                                        : "not ended")));
    }
  }

  // Finds the first call that differs between ranks.
  void find_differing() {
    std::vector<std::map<int64_t, const RecordedOp*>> calls;
    for (const GroupOfRank& part : parts_) calls.push_back(collectives(part));
    for (size_t i = 1; i < calls.size(); ++i)
      for (const auto& [seq, op] : calls[i]) {
        const auto first = calls[0].find(seq);
        if (first == calls[0].end() || terms(*first->second) == terms(*op))
          continue;
        found_.push_back(absl::StrCat(
            "call #", seq,
            " differs: ", rank_names({parts_[0].recording->rank}), " made ",
            describe(*first->second), ", ",
            rank_names({parts_[i].recording->rank}), " ", describe(*op)));
        return;
      }
  }

  void find_waiting_messages() {
    for (const RankPosition& position : group_.ranks)
      for (const RecordedOp& op : position.open) {
        if (op.seq > 0) continue;
        const auto peer = static_cast<size_t>(op.peer);
        const int64_t other = op.peer >= 0 && peer < group_.ranks.size()
                                  ? group_.ranks[peer].rank
                                  : -1;
        found_.push_back(absl::StrCat(
            rank_names({position.rank}), " waits in ", describe(op), " for ",
            other >= 0 ? rank_names({other})
                       : absl::StrCat("rank ", op.peer, " of the group"),
            " since ", seconds(position.time_ns - op.submitted_ns)));
      }
  }

  void find_failed() {
    for (const GroupOfRank& part : parts_)
      for (const RecordedOp& op : part.recording->operations)
        if (op.group == part.member->group && op.failed()) {
          found_.push_back(absl::StrCat(rank_names({part.recording->rank}),
                                        " failed in ", describe(op), ": ",
                                        op.state));
          break;
        }
  }

  const GroupPosition& group_;
  const std::vector<GroupOfRank>& parts_;
  std::vector<std::string> found_;
};

}  // namespace

std::string describe(const RecordedOp& op) {
  std::string text = op.op;
  if (op.seq > 0)
    absl::StrAppend(&text, " #", op.seq);
  else
    absl::StrAppend(&text, " with tag ", op.tag);
  std::vector<std::string> more;
  if (!op.dtype.empty())
    more.push_back(absl::StrCat(op.dtype, " x ", std::max(op.in, op.out)));
  if (!op.reduce.empty()) more.push_back(op.reduce);
  if (op.seq > 0 && op.peer >= 0)
    more.push_back(absl::StrCat("root ", op.peer));
  if (!op.label.empty()) more.push_back(absl::StrCat("'", op.label, "'"));
  if (!more.empty())
    absl::StrAppend(&text, " (", absl::StrJoin(more, ", "), ")");
  return text;
}

std::vector<GroupPosition> positions_of(const JobRecording& job) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<GroupOfRank>> parts;
  for (const RankRecording& recording : job.ranks)
    for (const RecordedMember& member : recording.groups) {
      std::vector<GroupOfRank>& of_group = parts[member.uid];
      if (of_group.empty()) order.push_back(member.uid);
      of_group.push_back({&recording, &member});
    }
  std::vector<GroupPosition> groups;
  for (const std::string& uid : order) {
    const std::vector<GroupOfRank>& of_group = parts[uid];
    const RecordedMember& any = *of_group.front().member;
    GroupPosition group{.uid = uid,
                        .name = any.name,
                        .backend = any.backend,
                        .ranks = {},
                        .findings = {}};
    // A size in a recording may be wrong.
    constexpr int64_t kMostRanks = 1 << 20;
    group.ranks.resize(
        static_cast<size_t>(std::clamp<int64_t>(any.size, 0, kMostRanks)));
    for (size_t i = 0; i < group.ranks.size() && i < any.ranks.size(); ++i)
      group.ranks[i].rank = any.ranks[i];
    for (const GroupOfRank& part : of_group)
      if (part.member->rank >= 0 &&
          static_cast<size_t>(part.member->rank) < group.ranks.size())
        group.ranks[static_cast<size_t>(part.member->rank)] = position_of(part);
    group.findings = Findings(group, of_group).all();
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace distwrap::cli
