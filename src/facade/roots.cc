#include "facade/roots.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "facade/refusal.h"

#include <absl/strings/str_cat.h>

namespace distwrap {

absl::StatusOr<Peer> choose_peer(std::optional<int> global,
                                 std::optional<int> group,
                                 absl::string_view argument) {
  if (global.has_value() && group.has_value())
    return base::make_error(
        {.reason = Reason::kRootBoth,
         .what = absl::StrCat("Cannot specify both ", argument, " and group_",
                              argument),
         .actual = absl::StrCat(argument, " ", *global, " and group_", argument,
                                " ", *group),
         .next_step = "give the rank in one of the two numberings"});
  if (global.has_value()) return Peer::global(*global);
  if (group.has_value()) return Peer::group(*group);
  return Peer();
}

namespace facade {

absl::Status root_error(const char* call, const group::GroupState& group,
                        Peer peer, Role role, const OpOptions& options) try {
  if (peer.is_set())
    return refusal(call, group, options,
                   {.reason = Reason::kRankNotMember,
                    .what = absl::StrCat("Global rank ", peer.rank(),
                                         " is not in process group"),
                    .expected = absl::StrCat(
                        "one of ", base::rank_list(group.global_ranks())),
                    .next_step = "name a member, or give a rank in the "
                                 "numbering of the group"});
  if (role == Role::kReceiveSource)
    return refusal(call, group, options,
                   {.reason = Reason::kWildcard,
                    .what = "a wildcard receive, src=None, is not supported",
                    .next_step = "name the source"});
  const char* const name = role == Role::kSource ? "src" : "dst";
  return refusal(
      call, group, options,
      {.reason = Reason::kRootMissing,
       .what = absl::StrCat("Either ", name, " or group_", name,
                            " must be specified"),
       .next_step = "name the root by its rank in the world or in the "
                    "group"});
} catch (...) {
  return base::error_of_exception(call);
}

}  // namespace facade
}  // namespace distwrap
