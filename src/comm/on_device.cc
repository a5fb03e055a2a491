#include "comm/on_device.h"

#include "comm/op_shape.h"
#include "distwrap/deadline.h"

#include <absl/strings/str_cat.h>
#include <absl/time/time.h>

#include <algorithm>

namespace distwrap::comm {
namespace {

// Operations aside and those in host order run on a stream of the backend.
const void* stream_of(const dw_op& op) {
  return (op.flags & DW_FLAG_ASIDE) != 0 ? nullptr : op.stream.native;
}

}  // namespace

std::string running_time(int64_t since_ns) {
  return absl::FormatDuration(absl::Trunc(
      absl::Nanoseconds(Deadline::now_ns() - since_ns), absl::Milliseconds(1)));
}

void OnDevice::begun(const WorkCell* cell, const dw_op& op) {
  base::MutexLock lock(mutex_);
  for (Running& one : running_) {
    if (one.cell != nullptr) continue;
    one = {cell, stream_of(op), op.kind, op.seq, Deadline::now_ns()};
    return;
  }
}

void OnDevice::ended(const WorkCell* cell) {
  base::MutexLock lock(mutex_);
  for (Running& one : running_)
    if (one.cell == cell) one.cell = nullptr;
}

std::string OnDevice::why_queued(const dw_op& op) const {
  base::MutexLock lock(mutex_);
  const auto before =
      std::find_if(running_.begin(), running_.end(), [&](const Running& one) {
        return one.cell != nullptr && one.stream == stream_of(op);
      });
  if (before == running_.end()) return "queued behind other work of its stream";
  return absl::StrCat("queued behind ", op_shape(before->kind).name,
                      before->seq == 0 ? "" : absl::StrCat(" #", before->seq),
                      ", which has been running for ",
                      running_time(before->since_ns));
}

}  // namespace distwrap::comm
