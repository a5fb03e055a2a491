#include "comm/recorder/recording.h"

#include "base/settings.h"
#include "comm/dtype_text.h"
#include "comm/op_shape.h"
#include "comm/recorder/plain_json.h"
#include "distwrap/reduce_op.h"
#include "distwrap/types.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

void write_groups(const Recorder& recorder, PlainJson& json) {
  bool first = true;
  for (uint16_t i = 0; i < Recorder::kMostGroups; ++i) {
    RecordedGroup group;
    if (!recorder.read_group(i, &group)) continue;
    json.raw(first ? "\n" : ",\n").raw(" {\"group\": ").number(uint64_t{i});
    first = false;
    json.raw(", \"uid\": ").hex(group.uid);
    json.raw(", \"name\": ").text(group.name.data());
    json.raw(", \"backend\": ").text(group.backend.data());
    json.raw(", \"rank\": ").number(int64_t{group.rank});
    json.raw(", \"size\": ").number(int64_t{group.size});
    json.raw(", \"ranks\": [");
    const size_t known = std::min(static_cast<size_t>(std::max(group.size, 0)),
                                  RecordedGroup::kMostRanks);
    for (size_t r = 0; r < known; ++r)
      json.raw(r == 0 ? "" : ", ").number(int64_t{group.ranks[r]});
    json.raw("]}");
  }
}

void write_state(const Record& record, PlainJson& json) {
  json.raw(", \"state\": ");
  if (record.outcome >= Recorder::kFailed)
    json.text(
        reason_name(static_cast<Reason>(record.outcome - Recorder::kFailed)));
  else
    json.raw(record.ended != 0     ? "\"done\""
             : record.started != 0 ? "\"running\""
                                   : "\"queued\"");
}

// -1 when a later group has its number.
int64_t group_of(const Record& record, const Recorder& recorder) {
  RecordedGroup group;
  return recorder.read_group(record.group, &group) &&
                 group.since <= record.number
             ? record.group
             : -1;
}

void write_operation(const Record& record, int64_t group,
                     const base::TickScale& scale, PlainJson& json) {
  const OpShape& shape = op_shape(record.kind);
  json.raw(" {\"number\": ").number(record.number);
  json.raw(", \"group\": ").number(group);
  json.raw(", \"op\": ").text(shape.name);
  if (record.seq != 0) json.raw(", \"seq\": ").number(record.seq);
  if (!shape.collective()) json.raw(", \"tag\": ").number(record.tag);
  if (shape.peer != PeerRole::NO)
    json.raw(shape.peer == PeerRole::ROOT ? ", \"root\": " : ", \"peer\": ")
        .number(int64_t{record.peer});
  if (const absl::string_view dtype = dtype_text(record.dtype); !dtype.empty())
    json.raw(", \"dtype\": ").text(dtype);
  if (shape.reduces())
    json.raw(", \"reduce\": ")
        .text(reduce_op_name(static_cast<ReduceOp::Kind>(record.reduce)));
  json.raw(", \"in\": ").number(record.in_count);
  json.raw(", \"out\": ").number(record.out_count);
  if (record.async) json.raw(", \"async\": true");
  if (record.in_batch) json.raw(", \"batch\": true");
  if (record.in_place) json.raw(", \"in_place\": true");
  if (record.label[0] != 0) json.raw(", \"label\": ").text(record.label.data());
  json.raw(", \"submitted_ns\": ").number(scale.unix_ns(record.submitted));
  if (record.started != 0)
    json.raw(", \"started_ns\": ").number(scale.unix_ns(record.started));
  if (record.ended != 0)
    json.raw(", \"ended_ns\": ").number(scale.unix_ns(record.ended));
  write_state(record, json);
  json.raw("}");
}

// The later moment of a scale, far enough from the first.
base::Moment far_from(const base::Moment& early) {
  constexpr int64_t kEnoughNs = 1'000'000;
  base::Moment now = base::Moment::now();
  while (now.monotonic_ns - early.monotonic_ns < kEnoughNs)
    now = base::Moment::now();
  return now;
}

}  // namespace

bool write_recording(const Recorder& recorder, const RecordedRank& who,
                     absl::string_view cause, int fd) {
  const base::Moment now = far_from(recorder.made());
  const base::TickScale scale(recorder.made(), now);
  const uint64_t next = recorder.next();
  const uint64_t first =
      next > Recorder::kEntries ? next - Recorder::kEntries : 1;
  PlainJson json(fd);
  json.raw("{\"format\": \"distwrap recording\", \"version\": 1");
  json.raw(", \"library\": ").text(base::library_version());
  json.raw(", \"job\": ").text(who.job);
  json.raw(", \"rank\": ").number(int64_t{who.rank});
  json.raw(", \"world_size\": ").number(int64_t{who.world_size});
  json.raw(", \"host\": ").text(who.host);
  json.raw(", \"pid\": ").number(int64_t{getpid()});
  json.raw(", \"cause\": ").text(cause);
  json.raw(", \"time_ns\": ").number(now.unix_ns);
  json.raw(", \"overwritten\": ").number(first - 1);
  json.raw(",\n\"groups\": [");
  write_groups(recorder, json);
  json.raw("],\n\"operations\": [");
  bool is_first = true;
  for (uint64_t number = first; number < next; ++number) {
    Record record;
    if (!recorder.read(number, &record)) continue;
    json.raw(is_first ? "\n" : ",\n");
    is_first = false;
    write_operation(record, group_of(record, recorder), scale, json);
  }
  json.raw("]}\n");
  return json.flush();
}

Recording::Recording(const Recorder& recorder, RecordedRank who,
                     const std::string& folder, const std::string& parent)
    : recorder_(recorder),
      who_(std::move(who)),
      parent_(parent),
      folder_(folder),
      path_(absl::StrCat(folder, "/rank-", who_.rank, ".json")) {}

bool Recording::save(absl::string_view cause) const {
  if (!parent_.empty()) {
    if (mkdir(parent_.c_str(), 0700) != 0 && errno != EEXIST) return false;
    // In a folder that all users share, another user may have made it first.
    struct stat info = {};
    if (lstat(parent_.c_str(), &info) != 0) return false;
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & 077) != 0) {
      errno = EPERM;
      return false;
    }
  }
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return false;
  // Two threads may save at once: each writes a file of its own.
  static std::atomic<unsigned> saves{0};
  char beside[4096];
  constexpr char kHex[] = "0123456789abcdef";
  char suffix[] = ".00000000.part";
  unsigned number = saves.fetch_add(1, std::memory_order_relaxed) ^
                    static_cast<unsigned>(getpid()) << 12;
  for (int i = 8; i > 0; --i, number >>= 4) suffix[i] = kHex[number & 15];
  if (path_.size() + sizeof suffix > sizeof beside) {
    errno = ENAMETOOLONG;
    return false;
  }
  memcpy(beside, path_.data(), path_.size());
  memcpy(beside + path_.size(), suffix, sizeof suffix);
  const int fd =
      open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  const bool wrote = write_recording(recorder_, who_, cause, fd);
  const int error = errno;
  close(fd);
  if (wrote && rename(beside, path_.c_str()) == 0) return true;
  if (!wrote) errno = error;
  const int kept = errno;
  unlink(beside);
  errno = kept;
  return false;
}

}  // namespace distwrap::comm
