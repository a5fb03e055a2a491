#include "comm/message_mismatch.h"

#include "base/error.h"
#include "comm/communicator.h"

#include <absl/strings/string_view.h>

#include <algorithm>
#include <optional>
#include <string.h>
#include <string>

namespace distwrap::comm {

void name_both_calls(const dw_error& error, int rank, ErrorInfo* info) {
  if (info->reason != Reason::kCallMismatch) return;
  const absl::string_view text(error.text,
                               strnlen(error.text, sizeof error.text));
  const size_t end = text.find('\n');
  if (end == absl::string_view::npos) return;
  info->what = "a message differs from what its receive expects";
  info->expected = std::string(text.substr(0, end));
  info->actual = std::string(text.substr(end + 1));
  info->ranks = {rank};
  if (error.peer >= 0 && error.peer != rank) info->ranks.push_back(error.peer);
  std::sort(info->ranks.begin(), info->ranks.end());
  info->next_step =
      "give both calls the same element type and count; a receive takes the "
      "oldest message with its tag";
}

// The board knows that the receiver has given the group up, and the job's store
// knows why.
absl::Status BackendCommunicator::pending_message_mismatch() {
  if (board_ == nullptr) return absl::OkStatus();
  const std::optional<ErrorInfo> gave_up = board_->who_gave_up();
  if (!gave_up.has_value()) return absl::OkStatus();
  ErrorInfo first = first_failure_.agree(*gave_up).value_or(*gave_up);
  if (first.reason != Reason::kCallMismatch) return absl::OkStatus();
  first.my_rank = identity_.rank;
  return base::make_error(first);
}

}  // namespace distwrap::comm
