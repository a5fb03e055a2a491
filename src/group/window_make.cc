#include "group/window_make.h"

#include "base/error.h"
#include "comm/setup.h"
#include "group/board_call.h"
#include "group/group_call.h"
#include "group/split_plan.h"

#include <absl/strings/str_cat.h>

#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::group {
namespace {

constexpr char kMake[] = "new_window";
constexpr char kDestroy[] = "window_destroy";
// The time beyond the limit to free memory, or to tell other ranks of a
// failure.
constexpr absl::Duration kGrace = absl::Milliseconds(50);

std::vector<int> all_ranks(const GroupState& group) {
  std::vector<int> ranks(static_cast<size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Names the call's own limit instead of the session's start limit.
absl::Status limited_by_call(const absl::Status& status) {
  if (status.ok()) return status;
  return base::amend_error(status, [](ErrorInfo& info) {
    if (info.setting == base::kInitLimit) info.setting = base::kCallLimit;
  });
}

}  // namespace

absl::StatusOr<std::shared_ptr<comm::Window>> make_window(
    GroupState& group, comm::BackendCommunicator& owner,
    const comm::Window::OwnPart& part, absl::Duration limit) {
  const Deadline deadline = Deadline::after(limit);
  std::string text =
      absl::StrCat("with ", part.signals, " signals on ", owner.backend());
  const CallTerms terms{kMake, hash_text(text), std::move(text)};
  const std::unique_ptr<BoardCall> board =
      BoardCall::begin(group, terms, deadline);
  const absl::Status met = board != nullptr
                               ? board->meet("").status()
                               : meet_for_call(group, terms, deadline);
  if (!met.ok()) return limited_by_call(met);
  // Numbered after all ranks have met, so the number is equal on all ranks.
  const uint64_t kind = hash_text(kMake);
  const uint64_t number = group.begin_child(kind);
  const uint64_t uid = mix_hash(mix_hash(group.uid(), kind), number);
  const comm::SetupPlan plan{
      .group = group.name(),
      .uid = uid,
      .epoch = 0,
      .rank = group.rank(),
      .size = group.size(),
      .host_of = group.host_of(),
      .keys = group.key(absl::StrCat("window/", absl::Hex(uid), "/"))};
  comm::StoreRounds store(*group.store(), plan);
  std::optional<BoardCall::Rounds> rounds;
  if (board != nullptr) rounds.emplace(*board, all_ranks(group), store);
  absl::StatusOr<std::shared_ptr<comm::Window>> window = comm::Window::build(
      owner,
      rounds.has_value() ? static_cast<comm::SetupRounds&>(*rounds) : store,
      plan, part, deadline);
  if (!window.ok()) return limited_by_call(window.status());
  return window;
}

absl::Status destroy_window(GroupState& group, comm::Window& window,
                            absl::Duration limit) {
  const Deadline deadline = Deadline::after(limit);
  const absl::StatusOr<bool> closed = window.close(deadline);
  if (closed.ok() && !*closed) return absl::OkStatus();
  const CallTerms terms{kDestroy, window.uid(),
                        absl::StrCat("of window ", absl::Hex(window.uid()))};
  absl::Status met;
  if (closed.ok()) {
    const std::unique_ptr<BoardCall> board =
        BoardCall::begin(group, terms, deadline);
    met = limited_by_call(board != nullptr
                              ? board->meet("").status()
                              : meet_for_call(group, terms, deadline));
  } else {
    met = closed.status();
    ErrorInfo why = error_info(met).value_or(ErrorInfo{});
    const bool still_used = why.reason == Reason::kTimedOut;
    // All ranks know already that a group is broken.
    if (still_used) {
      why.ranks = {group.rank()};
      refuse_call(group, terms, why, Deadline::after(kGrace));
      // Memory that other threads still use cannot be freed before the group
      // ends.
      return met;
    }
  }
  const Deadline least = Deadline::after(kGrace);
  const absl::Status ended = window.end(
      deadline.is_never() || least.ns() < deadline.ns() ? deadline : least);
  return met.ok() ? ended : met;
}

}  // namespace distwrap::group
