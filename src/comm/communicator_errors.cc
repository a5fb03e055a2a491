// The errors of calls that were refused, failed or timed out.
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator.h"
#include "comm/message_mismatch.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <time.h>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

constexpr size_t kMostSeen = 64;
// The time for an explanation beside the store's, within the limit by which an
// error may be late.
constexpr absl::Duration kExplanation = absl::Milliseconds(100);

}  // namespace

absl::Status BackendCommunicator::refuse(Fault fault, uint16_t kind,
                                         const AnyCall& call) const {
  return base::make_error(
      located(describe_fault(fault, kind, call, identity_.rank, identity_.size,
                             backend_->name(), backend_->capabilities()),
              kind, 0));
}

absl::Status BackendCommunicator::refuse_timeout(uint16_t kind,
                                                 absl::Duration timeout) const
    try {
  return base::make_error(
      located({.reason = Reason::kInvalidArgument,
               .what = "the timeout is not positive",
               .actual = absl::FormatDuration(timeout),
               .next_step = "leave it unset for the group's, or give "
                            "InfiniteDuration for none"},
              kind, 0));
} catch (...) {
  return base::error_of_exception(op_shape(kind).name);
}

absl::Status BackendCommunicator::refuse_closed(uint16_t kind) const {
  return refuse_broken(op_shape(kind).name);
}

absl::Status BackendCommunicator::refuse_broken(absl::string_view call) const {
  ErrorInfo info;
  if (process_.is_of_parent()) {
    info = base::of_parent("the group");
  } else if (life_.load(std::memory_order_acquire) == Life::kClosed) {
    info = {.reason = Reason::kGroupClosed,
            .what = "the group is closed",
            .next_step = "make calls before the session is closed"};
  } else {
    base::MutexLock lock(mutex_);
    if (std::exchange(is_news_, false))
      return base::make_error(cause_for(call, 0));
    info = {.reason = Reason::kGroupBroken,
            .what = "an earlier failure broke the group",
            .ranks = first_cause_.ranks,
            .cause = base::cause_text(first_cause_),
            .next_step = "close the session and start a new one"};
  }
  return base::make_error(located(info, call, 0));
}

absl::Status BackendCommunicator::check_stream(const char* call,
                                               const Stream& stream) const {
  if (backend_->has_streams() && stream.native != nullptr &&
      stream.device == backend_->device()) [[likely]]
    return absl::OkStatus();
  ErrorInfo info;
  if (!backend_->has_streams())
    info = {
        .reason = Reason::kUnsupported,
        .what = absl::StrCat("the group's backend, ", backend_->name(),
                             ", has no streams"),
        .actual = absl::StrCat("a stream of device type ", stream.device.type),
        .next_step = "leave the stream unset; wait for a Work by wait()"};
  else
    info = {.reason = Reason::kInvalidArgument,
            .what = "the stream does not belong to the backend's device",
            .expected = absl::StrCat("device ", backend_->device().type, ":",
                                     backend_->device().id),
            .actual = absl::StrCat("device ", stream.device.type, ":",
                                   stream.device.id,
                                   stream.native == nullptr ? ", none" : ""),
            .next_step = "give a stream of the memory's device"};
  return base::make_error(located(std::move(info), call, 0));
}

ErrorInfo BackendCommunicator::work_timeout(const dw_op& op) const {
  const bool is_message = op_shape(op.kind).peer == PeerRole::PEER;
  return located(
      {.reason = Reason::kTimedOut,
       .what = is_message ? "the other rank did not take part in time"
                          : "not all ranks took part in time",
       .ranks = is_message ? std::vector<int>{op.peer} : std::vector<int>{},
       .deadline = absl::Nanoseconds(op.timeout_ns),
       .setting = base::kCallLimit,
       .next_step = "look for the rank that is late, stopped or gone"},
      op.kind, op.seq);
}

absl::Status BackendCommunicator::refuse_place(uint16_t kind,
                                               int64_t timeout_ns) {
  const ErrorInfo info = located(
      {.reason = Reason::kTimedOut,
       .what = "another thread's call on the group did not end in time",
       .elapsed = absl::Nanoseconds(timeout_ns),
       .deadline = absl::Nanoseconds(timeout_ns),
       .setting = base::kCallLimit,
       .next_step = "let threads that wait for each other use groups of their "
                    "own, or asynchronous operations"},
      kind, 0);
  work_expired(info);
  return base::make_error(info);
}

ErrorInfo BackendCommunicator::located(ErrorInfo info, uint16_t kind,
                                       uint64_t seq) const {
  return located(std::move(info), op_shape(kind).name, seq);
}

ErrorInfo BackendCommunicator::located(ErrorInfo info, absl::string_view call,
                                       uint64_t seq) const {
  info.op = std::string(call);
  info.group = identity_.group;
  info.seq = seq;
  info.my_rank = identity_.rank;
  info.group_size = identity_.size;
  return info;
}

void BackendCommunicator::name_missing(ErrorInfo* info) {
  if (board_ == nullptr) return;
  if (info->seq == 0) return board_->describe_ranks(info);
  std::vector<RankSeen> missing = board_->missing(info->seq);
  // The backend knows for which rank it waits, and that rank may be waiting for
  // another one.
  if (!missing.empty()) info->ranks.clear();
  if (!info->ranks.empty()) return board_->describe_ranks(info);
  info->seen = std::move(missing);
  if (info->seen.empty() && info->cause.empty() && board_->sees_all())
    info->cause = "all ranks have made the call, and it has not ended";
  for (const RankSeen& seen : info->seen) info->ranks.push_back(seen.rank);
  // All names are given, and for some ranks also what they did.
  if (info->seen.size() > kMostSeen) info->seen.resize(kMostSeen);
}

// All ranks report calls that differ in the same way, whatever each was doing.
ErrorInfo BackendCommunicator::cause_for(absl::string_view call,
                                         uint64_t seq) const {
  return first_cause_.reason == Reason::kCallMismatch
             ? first_cause_
             : located(first_cause_, call, seq);
}

// A connection breaks because its rank has ended, or because that rank has
// already seen what the board knows here, or has given up for a cause that it
// told the store, which may not answer in time. An engine may be faster than
// the board: it sees the end of a connection before the board sees the rank's
// end and its reason, or before the news of other hosts have come.
std::optional<ErrorInfo> BackendCommunicator::ask_board(const ErrorInfo& info) {
  if (board_ == nullptr) return std::nullopt;
  const bool is_lost = info.reason == Reason::kPeerLost;
  // Messages are not on the board.
  const bool is_there =
      is_lost || (info.reason == Reason::kCallMismatch && info.seq != 0);
  for (const Deadline until = Deadline::after(kExplanation);;) {
    std::optional<ErrorInfo> known = board_->ask();
    if (!known.has_value() && is_lost) known = board_->who_gave_up();
    if (!known.has_value()) known = heard_news();
    if (known.has_value()) return known;
    if (!is_there || info.ranks.size() != 1 ||
        !board_->may_explain(info.ranks[0]) || until.passed())
      return std::nullopt;
    const timespec moment{0, 1'000'000};
    nanosleep(&moment, nullptr);
  }
}

// The failure that the board or the news have just ended the group with.
std::optional<ErrorInfo> BackendCommunicator::heard_news() {
  base::MutexLock lock(mutex_);
  if (!is_news_ || life_.load(std::memory_order_relaxed) != Life::kBroken)
    return std::nullopt;
  return first_cause_;
}

void BackendCommunicator::learn_root_cause(ErrorInfo* info) {
  std::optional<ErrorInfo> known = ask_board(*info);
  if (known.has_value()) {
    if (known->reason != Reason::kCallMismatch) {
      known->op = info->op;
      known->seq = info->seq;
      known->cause = info->what;
    }
    *info = *std::move(known);
  }
  // An engine does not tell why a connection has ended, nor does the board tell
  // why a rank gave up.
  const bool knows_little =
      (!known.has_value() && info->reason == Reason::kPeerLost) ||
      info->reason == Reason::kAborted;
  learn_first(info, knows_little ? FirstFailure::kLong : FirstFailure::kShort);
}

void BackendCommunicator::learn_first(ErrorInfo* info,
                                      absl::Duration patience) {
  // Engines do not tell which calls differ. The rank that knows from the board
  // may be the only one, and about to leave the board.
  if (info->reason == Reason::kCallMismatch) patience = FirstFailure::kLong;
  absl::StatusOr<ErrorInfo> answer = first_failure_.agree(*info, patience);
  if (!answer.ok()) {
    // A rank of this host that has ended is the cause also where the process
    // that serves the store has heard of it, and has ended as well.
    if (board_ == nullptr || !board_->knows_loss(*info))
      learn_loss_of_store(info,
                          error_reason(answer.status()) == Reason::kTimedOut);
    return;
  }
  ErrorInfo first = *std::move(answer);
  if (first.reason == Reason::kCallMismatch && first.expected.empty() &&
      !info->expected.empty())
    return;
  if (first.my_rank == info->my_rank) {
    if (first.reason == info->reason && first.ranks == info->ranks) return;
    // Another thread of this rank reported first, and what this one saw of a
    // peer followed from that.
    if (first.reason != Reason::kCallMismatch) {
      first.op = info->op;
      first.seq = info->seq;
    }
    *info = std::move(first);
    return;
  }
  if (first.reason == Reason::kCallMismatch) {
    // All ranks report the first failure in the same way, whichever rank found
    // it.
    first.my_rank = info->my_rank;
    *info = std::move(first);
    return;
  }
  // The board has told this rank the same about a lost peer.
  if (info->reason == Reason::kPeerLost && info->cause.empty() &&
      info->ranks == first.ranks)
    return;
  if (first.reason == Reason::kPeerLost && !first.ranks.empty()) {
    // The first failure names the rank and the reason; the engine only saw a
    // broken connection.
    first.cause = absl::StrCat(
        "rank ", first.my_rank, " failed first",
        first.cause.empty() ? "" : absl::StrCat(" (", first.cause, ")"),
        "; here: ", info->what);
    first.op = info->op;
    first.seq = info->seq;
    first.my_rank = info->my_rank;
    *info = std::move(first);
    return;
  }
  info->cause = absl::StrCat("rank ", first.my_rank,
                             " failed first: ", base::cause_text(first));
  info->ranks = first.ranks;
  info->seen = first.seen;
  const bool lost_elsewhere =
      first.ranks.empty() && first.reason == Reason::kPeerLost;
  if ((first.ranks.empty() && !lost_elsewhere) ||
      first.reason == Reason::kTimedOut) {
    // The deadline of the group's abort has passed.
    info->reason = Reason::kAborted;
    info->what = absl::StrCat("rank ", first.my_rank, " gave up");
    info->setting.clear();  // the cause names the limit
    if (info->ranks.empty()) info->ranks = {first.my_rank};
  } else if (info->reason == Reason::kAborted) {
    // This rank saw only the board's news: the first failure has the reason.
    info->reason = first.reason;
    info->what = first.what;
  }
}

// Nobody can be asked what came first. When the store's host is gone, that did.
void BackendCommunicator::learn_loss_of_store(ErrorInfo* info,
                                              bool does_not_answer) {
  if (identity_.news == nullptr || info->reason == Reason::kCallMismatch)
    return;
  std::optional<ErrorInfo> lost =
      identity_.news->loss_of_store(does_not_answer);
  if (!lost.has_value() ||
      (lost->reason == info->reason && lost->ranks == info->ranks))
    return;
  if (!info->what.empty())
    absl::StrAppend(&lost->cause, "; here: ", info->what);
  *info = located(*std::move(lost), info->op, info->seq);
}

ErrorInfo BackendCommunicator::work_failed(const dw_op& op, int32_t code,
                                           const dw_error& error) {
  ErrorInfo info =
      located(backend_error(code, error, backend_->name()), op.kind, op.seq);
  if (error.peer >= 0 && error.peer < identity_.size) info.ranks = {error.peer};
  name_both_calls(error, identity_.rank, &info);
  if (is_refusal(code)) return info;
  if (life_.load(std::memory_order_acquire) == Life::kClosed) {
    info.reason = Reason::kAborted;
    info.what = "the session was closed while the operation ran";
    info.next_step = "wait for operations before closing, or close later";
    return info;
  }
  if (info.reason == Reason::kAborted) {
    // Ended by an abort on this rank: its cause says more than the engine.
    base::MutexLock lock(mutex_);
    if (life_.load(std::memory_order_relaxed) == Life::kBroken) {
      is_news_ = false;  // this call reports it
      if (first_cause_.reason == Reason::kCallMismatch ||
          first_cause_.reason == Reason::kPeerLost ||
          (first_cause_.reason == Reason::kAborted &&
           !first_cause_.ranks.empty()))
        return cause_for(op_shape(op.kind).name, op.seq);
      info.cause = base::cause_text(first_cause_);
    }
  } else {
    if (info.reason == Reason::kTimedOut) {
      info.setting = base::kCallLimit;
      name_missing(&info);
    }
    learn_root_cause(&info);
  }
  if (info.next_step.empty())
    info.next_step =
        info.ranks.empty()
            ? "close the session and start a new one"
            : "look at that rank's own output: it died, was killed, or gave up";
  abort(info);
  base::MutexLock lock(mutex_);
  is_news_ = false;
  return info;
}

}  // namespace distwrap::comm
