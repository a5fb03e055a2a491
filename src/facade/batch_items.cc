#include "facade/batch_items.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "facade/binding.h"
#include "facade/prepared_state.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::facade {

Communicator* BatchItems::open(const char* call, const OpOptions& options,
                               std::optional<Device> device,
                               absl::Status* status) {
  std::shared_ptr<group::GroupState> group = kept_group_of(options.group);
  if (group == nullptr) {
    *status = not_initialized(call);
    return nullptr;
  }
  comm::BackendCommunicator* const communicator =
      device.has_value() ? group->find(*device) : group->default_communicator();
  if (communicator == nullptr) {
    *status = group->no_communicator(device.value_or(kCpu));
    return nullptr;
  }
  if (std::find(groups_.begin(), groups_.end(), group) == groups_.end())
    groups_.push_back(std::move(group));
  return &record_.on(*communicator, options.stream);
}

int BatchItems::keep(int number, const absl::Status& status) {
  if (!status.ok() && size() == number) record_.refuse(status).IgnoreError();
  return number;
}

absl::StatusOr<Work> BatchItems::submit() {
  absl::StatusOr<std::vector<Work>> works = record_.submit();
  if (!works.ok()) return works.status();
  works_ = *std::move(works);
  submitted_ = true;
  try {
    return Work::all(works_);
  } catch (...) {
    // The caller gets no handle to wait by, so nothing may go on.
    const absl::Status failed = base::error_of_exception("batch");
    for (const auto& group : groups_)
      for (const group::Channel& channel : group->channels())
        channel.communicator->break_by(failed);
    for (const Work& work : works_) work.wait().IgnoreError();
    return failed;
  }
}

absl::StatusOr<PreparedOperation> BatchItems::prepare() {
  absl::StatusOr<std::unique_ptr<comm::PreparedCall>> call = record_.prepare();
  if (!call.ok()) return call.status();
  return PreparedOperation(std::make_shared<PreparedState>(
      groups_.empty() ? nullptr : groups_.front(), *std::move(call)));
}

absl::StatusOr<Work> BatchItems::item(int i) const {
  if (submitted_ && i >= 0 && i < static_cast<int>(works_.size()))
    return works_[static_cast<size_t>(i)];
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = submitted_ ? "the batch has no such item"
                          : "the batch was not submitted",
       .op = "batch",
       .expected = submitted_ ? absl::StrCat("below ", works_.size()) : "",
       .actual = absl::StrCat("item ", i),
       .next_step = "ask after submit, by the number that the call returned"});
}

}  // namespace distwrap::facade
