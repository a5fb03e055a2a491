// A barrier over the store, which knows the ranks that came.
#include "base/error.h"
#include "base/exceptions.h"
#include "distwrap/deadline.h"
#include "distwrap/operations.h"
#include "facade/binding.h"
#include "facade/refusal.h"
#include "facade/shown_call.h"
#include "store/exchange.h"

#include <absl/strings/str_cat.h>

#include <string>
#include <vector>

namespace distwrap {

namespace {

constexpr char kCall[] = "monitored_barrier";

absl::StatusOr<Work> meet(const group::GroupState& group,
                          const OpOptions& options, absl::Duration limit) {
  const std::string key =
      group.key(absl::StrCat(kCall, "/", group.next_meeting()));
  if (group.size() == 1) return Work();
  const absl::Status met =
      store::exchange(*group.store(), key, group.rank(), group.size(), "",
                      Deadline::after(limit))
          .status();
  if (met.ok()) return Work();
  return base::amend_error(met, [&](ErrorInfo& info) {
    info.op = kCall;
    info.group = group.name();
    info.my_rank = group.rank();
    info.group_size = group.size();
    info.label = std::string(options.label);
    info.deadline = limit;
    info.setting = base::kCallLimit;
  });
}

}  // namespace

absl::StatusOr<Work> monitored_barrier(const OpOptions& options) try {
  const std::shared_ptr<group::GroupState> group =
      facade::kept_group_of(options.group);
  if (group == nullptr) return facade::not_initialized(kCall);
  if (options.async)
    return facade::refusal(kCall, *group, options,
                           {.reason = Reason::kInvalidArgument,
                            .what = "a monitored barrier always waits",
                            .next_step = "use barrier, or leave async unset"});
  if (options.stream.native != nullptr)
    return facade::refuse_stream(kCall, *group, options);
  const absl::Duration limit = options.timeout.value_or(group->timeout());
  if (limit <= absl::ZeroDuration())
    return facade::refusal(kCall, *group, options,
                           {.reason = Reason::kInvalidArgument,
                            .what = "the timeout is not positive",
                            .actual = absl::FormatDuration(limit),
                            .next_step = "leave it unset for the group's"});
  if (absl::Status open =
          group->default_communicator()->check_open(DW_OP_BARRIER);
      !open.ok())
    return open;
  return facade::shown(
      *group,
      [&](HookedCall& call) {
        call.op = kCall;
        call.timeout = limit;
        call.label = options.label;
      },
      [&](const ErrorInfo& why) { facade::break_group(*group, why); },
      [&] { return meet(*group, options, limit); });
} catch (...) {
  return base::error_of_exception(kCall);
}

}  // namespace distwrap
