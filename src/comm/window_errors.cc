// The errors of calls on windows.
#include "base/error.h"
#include "comm/op_shape.h"
#include "comm/window.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::comm {
namespace {

constexpr absl::string_view kCompares[] = {"?",  "==", "!=", "<",
                                           "<=", ">",  ">="};

bool is_refusal(int32_t code) {
  return code == DW_INVALID_ARGUMENT || code == DW_UNIMPLEMENTED ||
         code == DW_INCOMPATIBLE || code == DW_FAILED_PRECONDITION;
}

}  // namespace

ErrorInfo Window::work_timeout(const dw_op& op) const {
  const bool is_pair = op.signal_index == DW_SIGNAL_PAIR;
  ErrorInfo info{
      .reason = Reason::kTimedOut,
      .what = "the operation did not end in time",
      .deadline = absl::Nanoseconds(op.timeout_ns),
      .setting = base::kCallLimit,
      .next_step = "look for the rank that is late, stopped or gone"};
  if (op.kind == DW_OP_WAIT_SIGNAL) {
    info.what =
        is_pair ? absl::StrCat("rank ", op.peer, " did not signal in time")
                : absl::StrCat("signal ", op.signal_index, " of rank ", rank_,
                               " did not become ", kCompares[op.compare % 7],
                               " ", op.value, " in time");
    info.next_step = "look at the rank that should signal";
  }
  if (op.peer >= 0) info.ranks = {op.peer};
  return located(std::move(info), op_shape(op.kind).name);
}

// A wait that is late, and a call that the target refuses, leave the group as
// it was.
ErrorInfo Window::work_failed(const dw_op& op, int32_t code,
                              const dw_error& error) {
  const char* const name = op_shape(op.kind).name;
  ErrorInfo info;
  // A target may have ended its window because the group has broken there.
  const bool gave_up =
      error.reason == DW_REASON_STALE_EPOCH &&
      owner_
          .ask_board({.reason = Reason::kPeerLost,
                      .ranks = {error.peer >= 0 ? error.peer : op.peer}})
          .has_value();
  if (is_refusal(code) && !gave_up) {
    info = located(backend_error(code, error, owner_.backend_->name()), name);
    if (error.peer >= 0 && error.peer < size()) info.ranks = {error.peer};
    if (info.reason == Reason::kStaleEpoch && info.next_step.empty())
      info.next_step = "make the window again on all ranks";
  } else if (code == DW_DEADLINE_EXCEEDED && op.kind == DW_OP_WAIT_SIGNAL) {
    info = work_timeout(op);
    info.next_step += "; the wait may be made again";
    owner_.name_missing(&info);
  } else {
    dw_error named = error;
    if (named.peer < 0) named.peer = op.peer;
    if (gave_up) named.reason = DW_REASON_PEER_LOST;
    info = owner_.work_failed(op, gave_up ? DW_UNAVAILABLE : code, named);
  }
  return info;
}

ErrorInfo Window::located(ErrorInfo info, absl::string_view call) const {
  info.op = std::string(call);
  info.group = group_;
  info.my_rank = rank_;
  info.group_size = size();
  return info;
}

absl::Status Window::refuse_closed(absl::string_view call) const {
  if (process_.is_of_parent())
    return base::make_error(located(base::of_parent("the window"), call));
  if (!closed_.load(std::memory_order_seq_cst))
    return owner_.refuse_broken(call);
  bool by_owner;
  {
    base::MutexLock lock(mutex_);
    by_owner = owner_ended_;
  }
  return base::make_error(located(
      {.reason = Reason::kStaleEpoch,
       .what = by_owner ? "the window's group has ended, and the window with it"
                        : "the window was destroyed",
       .next_step = "make a new window"},
      call));
}

}  // namespace distwrap::comm
