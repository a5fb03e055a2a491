#include "store/presence.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>

namespace distwrap::store {
namespace {

// Leaving a failed exchange may take kLeaveNs beyond the deadline, and gets at
// least kLeastNs when the deadline has passed already.
constexpr int64_t kLeaveNs = 75'000'000, kLeastNs = 20'000'000;
// Every rank that gives up adds this to the count of ranks, so that the count
// never becomes small again.
constexpr int64_t kOver = int64_t{1} << 40;
// First byte of a blob's value.
constexpr char kBlob = 'b';
constexpr char kGaveUp = 'x';

Deadline time_to_leave(Deadline deadline) {
  if (deadline.is_never()) return deadline;
  return Deadline::at_ns(
      std::max(deadline.ns() + kLeaveNs, Deadline::now_ns() + kLeastNs));
}

}  // namespace

Presence::Presence(Store& store, absl::string_view key, int size)
    : store_(store),
      present_(absl::StrCat(key, "/present")),
      over_(absl::StrCat(key, "/over")) {
  blobs_.reserve(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) blobs_.push_back(absl::StrCat(key, "/", i));
}

std::string Presence::blob_text(absl::string_view blob) {
  return absl::StrCat(absl::string_view(&kBlob, 1), blob);
}

absl::Status Presence::error_in(absl::string_view text) {
  if (!text.empty() && text.front() == kBlob) return absl::OkStatus();
  const std::optional<ErrorInfo> why =
      text.empty() ? std::nullopt : base::decode_error(text.substr(1));
  return base::make_error(why.value_or(
      ErrorInfo{.reason = Reason::kAborted,
                .what = "another rank gave up, and its reason cannot be read",
                .op = "exchange"}));
}

absl::Status Presence::enter(Deadline deadline) {
  const absl::StatusOr<int64_t> count = store_.add(present_, 1, deadline);
  if (!count.ok()) return count.status();
  entered_ = true;
  if (*count < kOver) return absl::OkStatus();
  is_over_ = true;
  absl::Status status = told(deadline);
  leave(deadline);
  return status;
}

// A rank that gives up writes its text first, so this check also finds a rank
// that gave up after the count was read.
absl::Status Presence::check(Deadline deadline) {
  constexpr char kNever[] = "?";
  const absl::StatusOr<std::string> text =
      store_.compare_set(over_, kNever, kNever, time_to_leave(deadline));
  return text.ok() && !text->empty() ? error_in(*text) : absl::OkStatus();
}

// The text exists before the count shows that a rank gave up.
absl::Status Presence::told(Deadline deadline) {
  const absl::StatusOr<std::string> text =
      store_.get(over_, time_to_leave(deadline));
  if (!text.ok()) return text.status();
  return error_in(*text);
}

void Presence::leave(Deadline deadline) {
  if (!entered_) return;
  entered_ = false;
  const Deadline until = time_to_leave(deadline);
  const absl::StatusOr<int64_t> count = store_.add(present_, -1, until);
  if (count.ok()) delete_if_last(*count, until);
}

void Presence::delete_if_last(int64_t count, Deadline deadline) {
  if (count % kOver != 0) return;
  for (const std::string& blob : blobs_)
    if (!store_.delete_key(blob, deadline).ok()) return;
  // A rank that comes later has to learn that the exchange is over.
  if (count == 0) store_.delete_key(present_, deadline).IgnoreError();
}

void Presence::give_up(const ErrorInfo& why, int rank,
                       const std::vector<int>& missing, Deadline deadline) {
  const Deadline until = time_to_leave(deadline);
  const std::string text =
      absl::StrCat(absl::string_view(&kGaveUp, 1), base::encode_error(why));
  if (!store_.compare_set(over_, "", text, until).ok()) return;
  const absl::StatusOr<int64_t> count =
      store_.add(present_, entered_ ? kOver : kOver + 1, until);
  if (!count.ok()) return;
  entered_ = true;
  // A single rank wakes no other rank. A rank writes its own place before it
  // wakes others, so that they find it there.
  if (*count % kOver > 1) {
    if (static_cast<size_t>(rank) < blobs_.size())
      store_.set(blobs_[static_cast<size_t>(rank)], text, until).IgnoreError();
    std::vector<int> places = missing;
    if (places.empty()) {
      places.resize(blobs_.size());
      std::iota(places.begin(), places.end(), 0);
    }
    for (const int place : places)
      if (!store_
               .compare_set(blobs_[static_cast<size_t>(place)], "", text, until)
               .ok())
        break;
  }
  leave(until);
}

}  // namespace distwrap::store
