// Reading the fields of an error.
#include "capi/entry.h"
#include "distwrap/c.h"

#include <vector>

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_error_read(distwrap_error error, distwrap_error_info* info) {
  return entry("error_read", nullptr, [&]() -> absl::Status {
    const auto found = held("error_read", error);
    if (!found.ok()) return found.status();
    const ErrorBox& box = **found;
    const distwrap::ErrorInfo& from = box.info;
    distwrap_error_info out = {};
    out.code = box.code;
    out.reason = static_cast<int32_t>(from.reason);
    out.my_rank = from.my_rank;
    out.group_size = from.group_size;
    out.ranks_count = static_cast<uint32_t>(from.ranks.size());
    out.ranks = from.ranks.empty() ? nullptr : from.ranks.data();
    out.seq = from.seq;
    out.elapsed = absl::ToInt64Nanoseconds(from.elapsed);
    out.limit = absl::ToInt64Nanoseconds(from.deadline);
    out.text = box.text.c_str();
    out.what = from.what.c_str();
    out.op = from.op.c_str();
    out.group = from.group.c_str();
    out.expected = from.expected.c_str();
    out.actual = from.actual.c_str();
    out.cause = from.cause.c_str();
    out.next_step = from.next_step.c_str();
    out.label = from.label.c_str();
    out.seen = box.seen.empty() ? nullptr : box.seen.data();
    out.seen_count = box.seen.size();
    out.setting = from.setting.c_str();
    out.page = box.page.c_str();
    return write_info("error_read", out, info);
  });
}

const char* distwrap_error_text(distwrap_error error) {
  const auto found = find(error);
  return found ? found->text.c_str() : "";
}

int32_t distwrap_error_reason(distwrap_error error) {
  const auto found = find(error);
  return found ? static_cast<int32_t>(found->info.reason) : DW_REASON_NONE;
}

int32_t distwrap_error_free(distwrap_error error) { return free_handle(error); }
