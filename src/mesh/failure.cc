// The end of a redistribution on all ranks of its mesh, after a step has failed
// on some of them.
#include "base/error.h"
#include "group/group_state.h"
#include "mesh/prepared.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace distwrap::mesh {
namespace {

// The failure of a call in group `from` as the failure of group `to`. Ranks are
// numbered by group, so those that are no members of `to` are named in words.
ErrorInfo failure_in(const Group& to, ErrorInfo info, const Group& from) {
  info.seq = 0;
  std::vector<int> others;
  const std::vector<int> blamed = std::exchange(info.ranks, {});
  for (const int rank : blamed) {
    const int of_world = from.global_ranks()[static_cast<size_t>(rank)];
    if (const int member = to.group_rank(of_world); member >= 0)
      info.ranks.push_back(member);
    else
      others.push_back(of_world);
  }
  for (RankSeen& seen : info.seen) seen.rank = to.group_rank(seen.global_rank);
  std::erase_if(info.seen, [](const RankSeen& seen) { return seen.rank < 0; });
  if (!others.empty())
    absl::StrAppend(&info.what, "; rank", others.size() == 1 ? " " : "s ",
                    base::rank_list(others), " of the world");
  return info;
}

}  // namespace

void Prepared::break_groups(const absl::Status& failure) const {
  const std::optional<ErrorInfo> info = error_info(failure);
  if (!info.has_value()) return;
  std::vector<Group> groups;
  const auto add = [&](const Group& group) {
    if (group && std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  };
  for (const Step& step : steps_)
    for (const Group& group : {step.group, step.levels.near, step.levels.far})
      add(group);
  if (info->reason == Reason::kCallMismatch)
    for (const std::weak_ptr<MeshState>& kept : meshes_)
      if (const std::shared_ptr<MeshState> mesh = kept.lock(); mesh != nullptr)
        for (const Group& group : mesh->groups()) add(group);
  const auto failed = std::find_if(
      groups.begin(), groups.end(),
      [&](const Group& group) { return group.name() == info->group; });
  if (failed == groups.end()) return;
  const auto communicator = [](const Group& group) {
    return group.state()->find(kCpu);
  };
  // A call that was refused has left its group as it was.
  if (!communicator(*failed)->is_broken()) return;
  for (const Group& group : groups)
    if (group != *failed && communicator(group) != nullptr)
      communicator(group)->break_by(
          base::make_error(failure_in(group, *info, *failed)));
}

}  // namespace distwrap::mesh
