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
  std::vector<Work> works;
  const auto start = [&](uint16_t kind, const ByteParts& parts,
                         size_t r) -> absl::Status {
    comm::AnyCall call;
    call.peer = static_cast<int>(r);
    call.tag = tag;
    call.tag_class = DW_TAG_CLASS_HOST;
    (kind == DW_OP_RECV ? call.out : call.in) =
        TensorView(parts.data + parts.displs[r], parts.counts[r], DType::kU8);
    absl::StatusOr<Work> work =
        place_.communicator->run_any(kind, call, how(true));
    if (!work.ok()) return finish(work.status());
    works.push_back(*std::move(work));
    return absl::OkStatus();
  };
  const auto n = static_cast<size_t>(size());
  const auto me = static_cast<size_t>(rank());
  if (out.counts[me] > 0)
    memcpy(out.data + out.displs[me], in.data + in.displs[me],
           static_cast<size_t>(out.counts[me]));
  for (const bool receives : {true, false})
    for (size_t i = 1; i < n; ++i) {
      // Every rank begins with another peer.
      const size_t r = receives ? (me + n - i) % n : (me + i) % n;
      const ByteParts& parts = receives ? out : in;
      if (parts.counts[r] == 0 || (!masked_.empty() && masked_[r] != 0))
        continue;
      if (absl::Status status =
              start(receives ? DW_OP_RECV : DW_OP_SEND, parts, r);
          !status.ok()) {
        // The messages that were started use the buffers up to their end. If
        // one of them broke the group, the call reports its error.
        const absl::Status started = finish(wait_all(works));
        const bool told =
            !started.ok() && error_reason(status) == Reason::kGroupBroken;
        return told ? started : status;
      }
    }
  if (async) return Work::all(std::move(works));
  absl::Status status = finish(wait_all(works));
  if (!status.ok()) return status;
  return Work();
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
