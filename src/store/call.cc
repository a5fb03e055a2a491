#include "store/call.h"

#include "base/error.h"
#include "distwrap/store.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace distwrap::store {
namespace {

// A key as messages show it: whole unless it is very long.
std::string shown(absl::string_view key) {
  constexpr size_t kShown = 64;
  return absl::StrCat("\"", absl::CHexEscape(key.substr(0, kShown)),
                      key.size() > kShown ? "...\"" : "\"");
}

}  // namespace

absl::Duration StoreCall::elapsed() const {
  return absl::Nanoseconds(Deadline::now_ns() - started_ns_);
}

absl::Duration StoreCall::limit() const {
  if (deadline_.is_never()) return absl::ZeroDuration();
  return absl::Nanoseconds(std::max<int64_t>(0, deadline_.ns() - started_ns_));
}

absl::Status StoreCall::invalid(absl::string_view key,
                                absl::string_view why) const {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = absl::StrCat("key ", shown(key), ": ", why),
                           .op = op_});
}

absl::Status StoreCall::check_key(absl::string_view key) const {
  if (key.empty() || key.size() > Store::kMaxKeyBytes)
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat("key ", shown(key), " has a wrong length"),
         .op = op_,
         .expected = absl::StrCat("1 to ", Store::kMaxKeyBytes, " bytes"),
         .actual = absl::StrCat(key.size(), " bytes")});
  return absl::OkStatus();
}

absl::Status StoreCall::check(absl::string_view key, absl::string_view value,
                              absl::string_view other_value) const {
  if (absl::Status status = check_key(key); !status.ok()) return status;
  const size_t size = value.size() + other_value.size();
  if (size > Store::kMaxValueBytes)
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat("the value of key ", shown(key), " is too long"),
         .op = op_,
         .expected = absl::StrCat("at most ", Store::kMaxValueBytes, " bytes"),
         .actual = absl::StrCat(size, " bytes"),
         .next_step = "split the value over several keys"});
  if (deadline_.passed()) return timed_out({});
  return absl::OkStatus();
}

absl::Status StoreCall::check(const std::vector<std::string>& keys) const {
  size_t size = 0;
  for (const std::string& key : keys) {
    if (absl::Status status = check_key(key); !status.ok()) return status;
    size += key.size() + sizeof(uint32_t);
  }
  if (size > Store::kMaxValueBytes)
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat("the list of ", keys.size(), " keys is too long"),
         .op = op_,
         .expected = absl::StrCat("at most ", Store::kMaxValueBytes, " bytes"),
         .actual = absl::StrCat(size, " bytes"),
         .next_step = "split the list"});
  if (deadline_.passed()) return timed_out({});
  return absl::OkStatus();
}

absl::Status StoreCall::timed_out(const std::vector<std::string>& missing,
                                  absl::string_view cause) const {
  std::string what = "the deadline passed";
  if (!missing.empty()) {
    what = absl::StrCat("nobody set key ", shown(missing.front()));
    if (missing.size() > 1)
      absl::StrAppend(&what, " and ", missing.size() - 1, " more");
  }
  return base::make_error({.reason = Reason::kTimedOut,
                           .what = what,
                           .op = op_,
                           .elapsed = elapsed(),
                           .deadline = limit(),
                           .expected = absl::StrJoin(missing, "\n"),
                           .cause = std::string(cause)});
}

}  // namespace distwrap::store
