#include "base/error.h"

#include "base/bytes.h"
#include "base/exceptions.h"
#include "distwrap/abi/codes.h"

#include <absl/strings/ascii.h>
#include <absl/strings/cord.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <new>
#include <string.h>

namespace distwrap {
namespace {

constexpr char kPayloadUrl[] = "distwrap/ErrorInfo";
constexpr size_t kMaxText = 1 << 16;
// The text names this many of the ranks that were seen; more do not help to
// find the cause.
constexpr size_t kMostSeenInText = 4;
// The least bytes of a RankSeen in a payload: four texts, six numbers and a
// byte.
constexpr size_t kLeastSeenBytes = 4 * 4 + 6 * 8 + 1;

// Puts a text of another source, such as a list or a cause, into one line.
std::string in_one_line(absl::string_view text) {
  std::string line;
  for (const char c : text)
    if (c == '\n')
      line += ", ";
    else
      line += absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c;
  return line;
}

// The text of an error without its next step.
std::string sentence(const ErrorInfo& info) {
  std::string text;
  if (!info.op.empty()) {
    text = info.op;
    if (info.seq != 0) absl::StrAppend(&text, " #", info.seq);
    if (!info.label.empty()) absl::StrAppend(&text, " [", info.label, "]");
  }
  if (!info.group.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "on \"", info.group, "\"");
    if (info.my_rank >= 0)
      absl::StrAppend(&text, " (rank ", info.my_rank, " of ", info.group_size,
                      ")");
  }
  absl::StrAppend(&text, text.empty() ? "" : ": ", reason_name(info.reason));
  if (!info.what.empty()) absl::StrAppend(&text, ": ", info.what);
  if (!info.ranks.empty())
    absl::StrAppend(&text, "; rank", info.ranks.size() == 1 ? " " : "s ",
                    base::rank_list(info.ranks));
  absl::StrAppend(&text, base::seen_text(info.seen, info.group));
  if (info.elapsed > absl::ZeroDuration())
    absl::StrAppend(&text, "; after ",
                    absl::FormatDuration(absl::Trunc(
                        info.elapsed, info.elapsed < absl::Milliseconds(1)
                                          ? absl::Microseconds(1)
                                          : absl::Milliseconds(1))));
  if (info.deadline > absl::ZeroDuration())
    absl::StrAppend(&text, " (limit ", absl::FormatDuration(info.deadline),
                    info.setting.empty() ? "" : ": ", info.setting, ")");
  else if (!info.setting.empty())
    absl::StrAppend(&text, "; limit: ", info.setting);
  if (!info.expected.empty())
    absl::StrAppend(&text, "; expected ", info.expected);
  if (!info.actual.empty())
    absl::StrAppend(&text, info.expected.empty() ? "; got " : ", got ",
                    info.actual);
  if (!info.cause.empty()) absl::StrAppend(&text, "; cause: ", info.cause);
  return in_one_line(text);
}

}  // namespace

absl::string_view reason_name(Reason reason) {
  switch (reason) {
#define DW_REASON(value, name, enumerator, code, python, text) \
  case Reason::enumerator:                                     \
    return #enumerator;
#include "distwrap/abi/reasons.def"
  }
  return "kNone";
}

std::string error_page(Reason reason) {
  return absl::StrFormat("DW-%04d", static_cast<int>(reason));
}

std::optional<ErrorInfo> error_info(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  return base::decode_error(std::string(*payload));
}

Reason error_reason(const absl::Status& status) {
  const std::optional<ErrorInfo> info = error_info(status);
  return info.has_value() ? info->reason : Reason::kNone;
}

namespace base {

absl::StatusCode code_of_abi(int32_t code) {
  if (code == DW_INCOMPATIBLE) return absl::StatusCode::kFailedPrecondition;
  if (code < 0 || code > DW_UNAUTHENTICATED) return absl::StatusCode::kUnknown;
  return static_cast<absl::StatusCode>(code);
}

absl::StatusCode reason_code(Reason reason) {
  switch (reason) {
#define DW_REASON(value, name, enumerator, code, python, text) \
  case Reason::enumerator:                                     \
    return code_of_abi(DW_##code);
#include "distwrap/abi/reasons.def"
  }
  return absl::StatusCode::kUnknown;
}

absl::string_view reason_advice(Reason reason) {
  switch (reason) {
#define DW_REASON_PAGE(enumerator, advice, meaning, causes, look, settings) \
  case Reason::enumerator:                                                  \
    return advice;
#include "base/reason_pages.def"
  }
  return "";
}

std::string encode_error(const ErrorInfo& info) {
  ByteWriter out;
  out.u16(static_cast<uint16_t>(info.reason));
  out.u64(info.seq);
  out.i64(info.my_rank);
  out.i64(info.group_size);
  out.i64(absl::ToInt64Nanoseconds(info.elapsed));
  out.i64(absl::ToInt64Nanoseconds(info.deadline));
  out.u32(static_cast<uint32_t>(info.ranks.size()));
  for (int rank : info.ranks) out.i64(rank);
  for (const std::string* text :
       {&info.what, &info.op, &info.group, &info.expected, &info.actual,
        &info.cause, &info.next_step, &info.label, &info.setting})
    out.text(absl::string_view(*text).substr(0, kMaxText));
  out.u32(static_cast<uint32_t>(info.seen.size()));
  for (const RankSeen& seen : info.seen) {
    out.i64(seen.rank);
    out.i64(seen.global_rank);
    out.i64(seen.pid);
    out.u64(seen.seq);
    out.i64(absl::ToInt64Nanoseconds(seen.since));
    out.i64(absl::ToInt64Nanoseconds(seen.silent));
    out.u8(static_cast<uint8_t>(seen.doing));
    for (const std::string* text :
         {&seen.host, &seen.call, &seen.group, &seen.label})
      out.text(absl::string_view(*text).substr(0, kMaxText));
  }
  return out.take();
}

std::optional<ErrorInfo> decode_error(absl::string_view bytes) {
  ByteReader in(bytes);
  ErrorInfo info;
  info.reason = static_cast<Reason>(in.u16());
  info.seq = in.u64();
  info.my_rank = static_cast<int>(in.i64());
  info.group_size = static_cast<int>(in.i64());
  info.elapsed = absl::Nanoseconds(in.i64());
  info.deadline = absl::Nanoseconds(in.i64());
  const uint32_t n_ranks = in.u32();
  if (n_ranks > in.left() / 8) return std::nullopt;
  for (uint32_t i = 0; i < n_ranks; ++i)
    info.ranks.push_back(static_cast<int>(in.i64()));
  for (std::string* text :
       {&info.what, &info.op, &info.group, &info.expected, &info.actual,
        &info.cause, &info.next_step, &info.label, &info.setting})
    *text = std::string(in.text(kMaxText));
  const uint32_t n_seen = in.u32();
  if (n_seen > in.left() / kLeastSeenBytes) return std::nullopt;
  info.seen.resize(n_seen);
  for (RankSeen& seen : info.seen) {
    seen.rank = static_cast<int>(in.i64());
    seen.global_rank = static_cast<int>(in.i64());
    seen.pid = in.i64();
    seen.seq = in.u64();
    seen.since = absl::Nanoseconds(in.i64());
    seen.silent = absl::Nanoseconds(in.i64());
    const uint8_t doing = in.u8();
    if (doing > static_cast<uint8_t>(RankSeen::Doing::kLeft))
      return std::nullopt;
    seen.doing = static_cast<RankSeen::Doing>(doing);
    for (std::string* text : {&seen.host, &seen.call, &seen.group, &seen.label})
      *text = std::string(in.text(kMaxText));
  }
  if (!in.done()) return std::nullopt;
  return info;
}

std::string cause_text(const ErrorInfo& info) { return sentence(info); }

std::string cause_text(const absl::Status& status) {
  const std::optional<ErrorInfo> info = error_info(status);
  return info.has_value() ? sentence(*info) : std::string(status.message());
}

std::string errno_text(int error) {
  char text[128];
  // The GNU form returns the text, which is not always in the buffer `text`.
  return absl::StrCat("errno ", error, ": ",
                      strerror_r(error, text, sizeof text));
}

std::string brief_duration(absl::Duration duration) {
  const absl::Duration unit =
      duration < absl::Milliseconds(100) ? absl::Milliseconds(1)
      : duration < absl::Seconds(10)     ? absl::Milliseconds(100)
                                         : absl::Seconds(1);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

std::string seen_text(const RankSeen& seen, absl::string_view group) {
  std::string text = absl::StrCat("rank ", seen.rank);
  if (seen.pid != 0)
    absl::StrAppend(&text, " (process ", seen.pid,
                    seen.host.empty() ? "" : " on ", seen.host, ")");
  std::string call = seen.call.empty() ? "a call" : seen.call;
  if (seen.seq != 0) absl::StrAppend(&call, " #", seen.seq);
  if (!seen.label.empty()) absl::StrAppend(&call, " [", seen.label, "]");
  if (seen.group != group) absl::StrAppend(&call, " on \"", seen.group, "\"");
  const std::string since =
      seen.since >= absl::Milliseconds(1) ? brief_duration(seen.since) : "";
  switch (seen.doing) {
    case RankSeen::Doing::kNothing:
      absl::StrAppend(&text, " has made no call on the group");
      break;
    case RankSeen::Doing::kInside:
      absl::StrAppend(&text, " is in ", call, since.empty() ? "" : " for ",
                      since);
      break;
    case RankSeen::Doing::kDone:
      absl::StrAppend(&text, " has come out of ", call);
      if (!since.empty()) absl::StrAppend(&text, " ", since, " ago");
      break;
    case RankSeen::Doing::kLeft:
      absl::StrAppend(&text, " has left the group");
      break;
  }
  if (seen.silent > absl::ZeroDuration())
    absl::StrAppend(&text, " and has not run for ",
                    brief_duration(seen.silent));
  return text;
}

std::string seen_text(const std::vector<RankSeen>& seen,
                      absl::string_view group) {
  std::string text;
  for (size_t i = 0; i < seen.size() && i < kMostSeenInText; ++i)
    absl::StrAppend(&text, "; ", seen_text(seen[i], group));
  if (seen.size() > kMostSeenInText)
    absl::StrAppend(&text, "; ", seen.size() - kMostSeenInText, " more");
  return text;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] <= sorted[last] + 1)
      ++last;
    absl::StrAppend(&text, text.empty() ? "" : ", ", sorted[i]);
    if (sorted[last] != sorted[i])
      absl::StrAppend(&text, sorted[last] == sorted[i] + 1 ? ", " : "-",
                      sorted[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace base

absl::Status make_error(const ErrorInfo& info) try {
  ErrorInfo whole = info;
  if (whole.next_step.empty())
    whole.next_step = std::string(base::reason_advice(info.reason));
  absl::Status status(
      base::reason_code(info.reason),
      absl::StrCat(sentence(whole), ". Next: ", in_one_line(whole.next_step),
                   ", page ", error_page(info.reason)));
  status.SetPayload(kPayloadUrl, absl::Cord(base::encode_error(whole)));
  return status;
} catch (const std::bad_alloc&) {
  return base::no_memory_error();
}

}  // namespace distwrap
