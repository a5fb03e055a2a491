// Makes a script of the recordings of a job's ranks.
#include "recordings/recording.h"

#include "bench/replay/names.h"
#include "bench/replay/read.h"
#include "comm/op_shape.h"
#include "distwrap/abi/types.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>

namespace distwrap::bench {
namespace {

using cli::JobRecording;
using cli::RankRecording;
using cli::RecordedOp;

absl::Status refuse(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

// The groups of all ranks, by uid.
class Groups {
 public:
  explicit Groups(ReplayScript* script) : script_(*script) {}

  absl::StatusOr<size_t> find(const cli::RecordedMember& member) {
    const auto known = index_.find(member.uid);
    if (known != index_.end()) return known->second;
    ReplayGroup group{member.name, {}};
    if (static_cast<int64_t>(member.ranks.size()) != member.size)
      return refuse(absl::StrCat("group '", member.name, "' has ", member.size,
                                 " ranks, of which ", member.ranks.size(),
                                 " were written down"));
    for (const int64_t rank : member.ranks) {
      if (rank < 0 || rank >= script_.size())
        return refuse(absl::StrCat("rank ", rank, " of group '", member.name,
                                   "' is not in the job"));
      group.ranks.push_back(static_cast<int>(rank));
    }
    script_.groups.push_back(std::move(group));
    return index_[member.uid] = script_.groups.size() - 1;
  }

 private:
  ReplayScript& script_;
  std::map<std::string, size_t> index_;
};

absl::StatusOr<ReplayCall> call_of(const RecordedOp& op, size_t group) {
  ReplayCall call;
  const auto kind = kind_of(op.op);
  if (!kind.has_value())
    return refuse(absl::StrCat("there is no operation '", op.op, "'"));
  call.kind = *kind;
  call.group = group;
  if (!op.dtype.empty()) {
    const auto dtype = dtype_of_name(op.dtype);
    if (!dtype.has_value())
      return refuse(absl::StrCat("there is no element type '", op.dtype, "'"));
    call.dtype = *dtype;
  }
  if (comm::op_shape(call.kind).reduces()) {
    const auto reduce = reduction_of(op.reduce);
    if (!reduce.has_value())
      return refuse(absl::StrCat("there is no reduction '", op.reduce, "'"));
    call.reduce = *reduce;
  }
  call.in = op.in;
  call.out = op.out;
  call.peer = op.peer < 0 || op.peer > kMostReplayRanks
                  ? -1
                  : static_cast<int>(op.peer);
  // The upper bits hold the class of the tag.
  call.tag = op.tag & 0x7fffffff;
  call.async = op.async;
  return call;
}

absl::Status add_rank(const RankRecording& recording, Groups* groups,
                      ReplayScript* script, size_t* unfinished) {
  std::map<int64_t, size_t> group_of;
  for (const cli::RecordedMember& member : recording.groups) {
    const absl::StatusOr<size_t> group = groups->find(member);
    if (!group.ok()) return group.status();
    group_of[member.group] = *group;
  }
  std::vector<ReplayCall>& calls =
      script->ranks[static_cast<size_t>(recording.rank)];
  // The end times of calls that were started and not awaited.
  std::map<size_t, int64_t> open;
  for (const RecordedOp& op : recording.operations) {
    if (!op.has_ended() || op.failed()) {
      ++*unfinished;
      continue;
    }
    const auto group = group_of.find(op.group);
    if (group == group_of.end())
      return refuse(absl::StrCat("rank ", recording.rank, ": operation ",
                                 op.number,
                                 " is of a group that ended before "
                                 "the recording was saved"));
    absl::StatusOr<ReplayCall> call = call_of(op, group->second);
    if (!call.ok())
      return refuse(absl::StrCat("rank ", recording.rank, ", operation ",
                                 op.number, ": ", call.status().message()));
    for (auto it = open.begin(); it != open.end();) {
      if (it->second <= op.submitted_ns) {
        call->awaits.push_back(it->first);
        it = open.erase(it);
      } else {
        ++it;
      }
    }
    // Messages are awaited at the end: an engine with buffers may end a send
    // before its receive begins, and others would wait for each other there.
    if (call->async && comm::op_shape(call->kind).collective())
      open[calls.size()] = op.ended_ns;
    calls.push_back(*std::move(call));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayScript> script_of(const JobRecording& job) {
  const int64_t size = job.ranks.empty() ? 0 : job.ranks[0].world_size;
  if (size < 1 || size > kMostReplayRanks)
    return refuse(absl::StrCat("a job of ", size, " ranks; 1 to ",
                               kMostReplayRanks, " can be replayed"));
  ReplayScript script;
  script.source = "recordings";
  script.ranks.resize(static_cast<size_t>(size));
  std::vector<bool> there(static_cast<size_t>(size), false);
  for (const RankRecording& recording : job.ranks)
    if (recording.rank >= 0 && recording.rank < size)
      there[static_cast<size_t>(recording.rank)] = true;
  for (int64_t rank = 0; rank < size; ++rank)
    if (!there[static_cast<size_t>(rank)])
      return refuse(absl::StrCat("the recording of rank ", rank,
                                 " is missing: all are needed"));
  Groups groups(&script);
  bool cut = false;
  size_t unfinished = 0;
  for (const RankRecording& recording : job.ranks) {
    if (recording.rank < 0 || recording.rank >= size ||
        recording.world_size != size)
      return refuse(absl::StrCat(recording.path, " is not of this job"));
    cut = cut || recording.overwritten > 0;
    if (absl::Status status =
            add_rank(recording, &groups, &script, &unfinished);
        !status.ok())
      return status;
  }
  if (cut)
    script.notes.emplace_back(
        "the beginning was overwritten: the last operations are replayed");
  if (unfinished > 0)
    script.notes.push_back(absl::StrCat(
        unfinished, " operations had not ended well and are left out"));
  if (absl::Status status = link(&script, cut || unfinished > 0); !status.ok())
    return status;
  return script;
}

}  // namespace distwrap::bench
