#include "comm/recorder/message_stragglers.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/dtype_text.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>

namespace distwrap::comm {
namespace {

constexpr absl::Duration kShortestPause = absl::Milliseconds(50);

bool is_message(const Record& record) {
  return record.kind == DW_OP_SEND || record.kind == DW_OP_RECV;
}

}  // namespace

MessageStragglers::MessageStragglers(Recorder& recorder, Watchdog& watchdog,
                                     absl::Duration patience)
    : recorder_(recorder), watchdog_(watchdog), patience_(patience) {
  if (patience_ < absl::InfiniteDuration())
    watchdog_.add(*this, Deadline::after(patience_));
}

MessageStragglers::~MessageStragglers() { watchdog_.remove(*this); }

Deadline MessageStragglers::expired() {
  const base::Moment now = base::Moment::now();
  const base::TickScale scale(recorder_.made(), now);
  const uint64_t next = recorder_.next();
  const uint64_t oldest =
      next > Recorder::kEntries ? next - Recorder::kEntries : 1;
  told_.erase(told_.begin(), told_.lower_bound(oldest));
  for (uint64_t number = oldest; number < next; ++number) {
    Record record;
    if (!recorder_.read(number, &record) || !is_message(record) ||
        record.outcome != Recorder::kRunning || record.ended != 0)
      continue;
    const absl::Duration waited =
        absl::Nanoseconds(now.unix_ns - scale.unix_ns(record.submitted));
    if (waited >= patience_ && told_.insert(number).second)
      tell(record, waited);
  }
  return Deadline::after(std::max(patience_ / 4, kShortestPause));
}

void MessageStragglers::tell(const Record& record,
                             absl::Duration waited) const {
  RecordedGroup group;
  if (!recorder_.read_group(record.group, &group) ||
      group.since > record.number)
    return;
  const bool sends = record.kind == DW_OP_SEND;
  std::string text = absl::StrCat(
      "\"", group.name.data(), "\": rank ", group.rank,
      sends ? ": send of " : ": recv of ", dtype_text(record.dtype), " x ",
      sends ? record.in_count : record.out_count, sends ? " to" : " from",
      " rank ", record.peer, " with tag ", record.tag & 0xffffffffu);
  if (record.label[0] != 0)
    absl::StrAppend(&text, " [", record.label.data(), "]");
  absl::StrAppend(&text, " has waited ", base::brief_duration(waited),
                  ". Next: see what rank ", record.peer,
                  " is doing; `distwrap info --live` shows the job");
  base::log(base::LogLevel::kWarning, text);
}

}  // namespace distwrap::comm
