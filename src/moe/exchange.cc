#include "moe/exchange.h"

#include "base/error.h"
#include "group/session_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::moe {
namespace {

// The memory that the parts lie in; empty parts have a place in it, too.
TensorView view_of(const ByteParts& parts) {
  int64_t end = 0;
  for (size_t r = 0; r < parts.counts.size(); ++r)
    end = std::max(end, parts.displs[r] + parts.counts[r]);
  return TensorView(parts.data, end, DType::kU8);
}

// Calls `message(sends, peer)` for all other ranks. Two ranks meet in the round
// that is the sum of their ranks, and there the lower one sends first. All
// ranks go through the rounds in this order, so the two ranks of the first
// message that has not moved never both wait for others.
template <class Message>
absl::Status in_rounds(int size, int me, const Message& message) {
  for (int round = 0; round < size; ++round) {
    const int peer = (round + size - me) % size;
    if (peer == me) continue;
    const bool sends_first = me < peer;
    for (const bool sends : {sends_first, !sends_first})
      if (absl::Status status = message(sends, peer); !status.ok())
        return status;
  }
  return absl::OkStatus();
}

}  // namespace

bool checks_fully(const group::GroupState& group) {
  const std::shared_ptr<group::SessionState> session = group.session();
  return session != nullptr && session->full_check();
}

Exchange::Exchange(CallPlace place)
    : place_(std::move(place)),
      deadline_(
          Deadline::after(place_.timeout.value_or(place_.group->timeout()))) {}

CallOptions Exchange::how(bool async) const {
  // The communicator refuses a timeout that is not positive.
  if (place_.timeout.has_value() && *place_.timeout <= absl::ZeroDuration())
    return {.async = async, .timeout = place_.timeout, .label = place_.label};
  // A step that begins behind the deadline ends at once with a time-out, which
  // tells the other ranks.
  return {.async = async,
          .timeout = std::max(deadline_.remaining(), absl::Microseconds(1)),
          .label = place_.label};
}

absl::StatusOr<Work> Exchange::all_to_all(const ByteParts& out,
                                          const ByteParts& in, int64_t tag,
                                          bool async) const {
  if (!masked_.empty()) return messages(out, in, tag, async);
  absl::StatusOr<Work> work = place_.communicator->all_to_all_v(
      view_of(out), view_of(in), {.counts = out.counts, .displs = out.displs},
      {.counts = in.counts, .displs = in.displs}, how(async));
  if (!work.ok()) return finish(work.status());
  return work;
}

absl::StatusOr<Work> Exchange::all_to_all(const dw_ext& rows,
                                          absl::Span<const int64_t> out_counts,
                                          absl::Span<const int64_t> in_counts,
                                          bool async) const {
  comm::AnyCall call;
  call.in = call.out = TensorView(nullptr, 0, DType::kU8);
  call.per_rank = true;
  call.out_counts = {.counts = out_counts};
  call.in_counts = {.counts = in_counts};
  call.next = &rows;
  call.placed_by_extension = true;
  absl::StatusOr<Work> work =
      place_.communicator->run_any(DW_OP_ALL_TO_ALL, call, how(async));
  if (!work.ok()) return finish(work.status());
  return work;
}

absl::StatusOr<Work> Exchange::all_to_all(absl::Span<const TensorView> outs,
                                          absl::Span<const TensorView> ins,
                                          bool async) const {
  absl::StatusOr<Work> work =
      place_.communicator->all_to_all(outs, ins, how(async));
  if (!work.ok()) return finish(work.status());
  return work;
}

absl::StatusOr<Work> Exchange::messages(const ByteParts& out,
                                        const ByteParts& in, int64_t tag,
                                        bool async) const {
  const int n = size(), me = rank();
  const auto own = static_cast<size_t>(me);
  if (out.counts[own] > 0)
    memcpy(out.data + out.displs[own], in.data + in.displs[own],
           static_cast<size_t>(out.counts[own]));
  const auto exists = [&](bool sends, int peer) {
    return (sends ? in : out).counts[static_cast<size_t>(peer)] > 0 &&
           calls(peer);
  };
  const auto message = [&](bool sends, int peer) -> absl::StatusOr<Work> {
    const ByteParts& parts = sends ? in : out;
    const auto r = static_cast<size_t>(peer);
    comm::AnyCall call;
    call.peer = peer;
    call.tag = tag;
    call.tag_class = DW_TAG_CLASS_HOST;
    (sends ? call.in : call.out) =
        TensorView(parts.data + parts.displs[r], parts.counts[r], DType::kU8);
    absl::StatusOr<Work> work = place_.communicator->run_any(
        sends ? DW_OP_SEND : DW_OP_RECV, call, how(async));
    if (!work.ok()) return finish(work.status());
    return work;
  };
  if (!async) {
    // Messages that are waited for need no memory.
    absl::Status status = in_rounds(n, me, [&](bool sends, int peer) {
      return exists(sends, peer) ? message(sends, peer).status()
                                 : absl::OkStatus();
    });
    if (!status.ok()) return status;
    return Work();
  }
  std::vector<Work> works;
  for (const bool sends : {false, true})
    for (int i = 1; i < n; ++i) {
      // Every rank begins with another peer.
      const int peer = sends ? (me + i) % n : (me + n - i) % n;
      if (!exists(sends, peer)) continue;
      absl::StatusOr<Work> started = message(sends, peer);
      if (started.ok()) {
        works.push_back(*std::move(started));
        continue;
      }
      // The messages that were started use the buffers up to their end. If one
      // of them broke the group, the call reports its error.
      const absl::Status before = finish(wait_all(works));
      const bool told = !before.ok() &&
                        error_reason(started.status()) == Reason::kGroupBroken;
      return told ? before : started.status();
    }
  return Work::all(std::move(works));
}

absl::Status Exchange::error(ErrorInfo info) const {
  info.op = place_.name;
  info.group = place_.group->name();
  info.my_rank = rank();
  info.group_size = size();
  info.label = place_.label;
  return base::make_error(info);
}

absl::Status Exchange::finish(const absl::Status& status) const {
  if (status.ok()) return status;
  return base::amend_error(status, [&](ErrorInfo& info) {
    info.op = place_.name;
    info.group = place_.group->name();
    info.my_rank = rank();
    info.group_size = size();
    info.label = place_.label;
  });
}

absl::Status Exchange::check_open() const {
  return finish(place_.communicator->check_open(DW_OP_ALL_TO_ALL));
}

}  // namespace distwrap::moe
