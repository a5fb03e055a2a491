#include "facade/object_record.h"

#include "base/bytes.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace distwrap::facade {
namespace {

constexpr char kMagic[] = "DWOX";
constexpr uint8_t kVersion = 1;
// The limit for all records of a group together, as long as each has its least
// size.
constexpr size_t kAllRecords = 65536;

absl::string_view call_name(ObjectCall call) {
  switch (call) {
    case ObjectCall::kAllGather:
      return "all_gather_object";
    case ObjectCall::kGather:
      return "gather_object";
    case ObjectCall::kBroadcast:
      return "broadcast_object_list";
    case ObjectCall::kScatter:
      return "scatter_object_list";
    case ObjectCall::kMessage:
      return "an object message";
  }
  return "?";
}

bool rooted(ObjectCall call) {
  return call == ObjectCall::kGather || call == ObjectCall::kBroadcast ||
         call == ObjectCall::kScatter;
}

bool agree(const ObjectRecord& a, const ObjectRecord& b) {
  return a.call == b.call && a.root == b.root && a.count == b.count;
}

std::string describe(const ObjectRecord& record) {
  std::string text(call_name(record.call));
  if (rooted(record.call)) absl::StrAppend(&text, " with root ", record.root);
  if (record.call == ObjectCall::kBroadcast ||
      record.call == ObjectCall::kMessage)
    absl::StrAppend(&text, " and a list of ", record.count);
  return text;
}

}  // namespace

size_t record_size(int ranks) {
  return std::clamp(kAllRecords / static_cast<size_t>(ranks), kLeastRecord,
                    kMostRecord);
}

std::string write_record(const ObjectRecord& record, size_t size) {
  base::ByteWriter out;
  out.bytes(absl::string_view(kMagic, 4));
  out.u8(kVersion);
  out.u8(static_cast<uint8_t>(record.call));
  out.u16(static_cast<uint16_t>(record.reason));
  out.i64(record.root);
  out.u64(record.count);
  out.u64(record.largest);
  out.u64(record.total);
  out.u64(record.limit);
  if (record.inlined(size)) out.bytes(record.content);
  std::string bytes = out.take();
  bytes.resize(size, '\0');
  return bytes;
}

std::optional<ObjectRecord> read_record(absl::string_view bytes) {
  base::ByteReader in(bytes);
  ObjectRecord record;
  const absl::string_view magic = in.bytes(4);
  const uint8_t version = in.u8();
  const uint8_t call = in.u8();
  record.call = static_cast<ObjectCall>(call);
  record.reason = static_cast<Reason>(in.u16());
  const int64_t root = in.i64();
  record.root = static_cast<int>(root);
  record.count = in.u64();
  record.largest = in.u64();
  record.total = in.u64();
  record.limit = in.u64();
  if (!in.ok() || magic != kMagic || version != kVersion ||
      call < static_cast<uint8_t>(ObjectCall::kAllGather) ||
      call > static_cast<uint8_t>(ObjectCall::kMessage) ||
      record.root != root || record.largest > record.total)
    return std::nullopt;
  if (record.inlined(bytes.size()))
    record.content = bytes.substr(kRecordHead, record.total);
  return record;
}

std::optional<ErrorInfo> judge(
    absl::Span<const std::optional<ObjectRecord>> records,
    absl::Span<const int> ranks) {
  ErrorInfo info;
  const auto blame = [&](size_t i) { info.ranks.push_back(ranks[i]); };
  size_t first = records.size();
  for (size_t i = 0; i < records.size(); ++i)
    if (records[i].has_value() && records[i]->reason != Reason::kNone) {
      first = std::min(first, i);
      blame(i);
    }
  if (first < records.size()) {
    info.reason = Reason::kAborted;
    info.what = absl::StrCat("rank ", ranks[first],
                             " could not take part: ", records[first]->content);
    info.next_step = "correct the call on the rank that is named";
    return info;
  }
  info.reason = Reason::kCallMismatch;
  info.next_step = "make the same call on all ranks, in the same order";
  for (size_t i = 0; i < records.size(); ++i)
    if (!records[i].has_value()) blame(i);
  if (!info.ranks.empty()) {
    info.what =
        "ranks are in a call that does not exchange objects, or run another "
        "version of distwrap";
    return info;
  }
  for (size_t i = 1; i < records.size(); ++i)
    if (!agree(*records[0], *records[i])) {
      blame(i);
      first = std::min(first, i);
    }
  if (!info.ranks.empty()) {
    info.what = "ranks make different calls";
    info.expected =
        absl::StrCat(describe(*records[0]), " as on rank ", ranks[0]);
    info.actual =
        absl::StrCat(describe(*records[first]), " on rank ", ranks[first]);
    return info;
  }
  uint64_t limit = records[0]->limit;
  for (const std::optional<ObjectRecord>& record : records)
    limit = std::min(limit, record->limit);
  for (size_t i = 0; i < records.size(); ++i)
    if (records[i]->largest > limit) {
      blame(i);
      first = std::min(first, i);
    }
  if (info.ranks.empty()) return std::nullopt;
  info.reason = Reason::kObjectDecode;
  info.what = "an object is larger than the limit of some rank";
  info.expected = absl::StrCat("at most ", limit);
  info.actual = absl::StrCat(records[first]->largest);
  info.setting = "DISTWRAP_OBJECT_MAX_BYTES";
  info.next_step = "raise the limit on all ranks, or send the data as tensors";
  return info;
}

}  // namespace distwrap::facade
