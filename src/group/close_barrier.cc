#include "group/close_barrier.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::group {
namespace {

// The time that leaving may take beyond the deadline.
constexpr absl::Duration kLeave = absl::Milliseconds(20);

}  // namespace

CloseBarrier::CloseBarrier(std::shared_ptr<Store> store, std::string prefix,
                           int size)
    : store_(std::move(store)),
      said_(absl::StrCat(prefix, "close_barrier/said")),
      all_(absl::StrCat(prefix, "close_barrier/all")),
      heard_(absl::StrCat(prefix, "close_barrier/heard")),
      size_(size) {}

bool CloseBarrier::say(Deadline deadline) {
  if (board_ != nullptr) {
    board_->enter_close_barrier();
    return board_->wait_for_close_barrier(
        Deadline::after(absl::ZeroDuration()));
  }
  if (size_ == 1) return true;
  const absl::StatusOr<int64_t> said = store_->add(said_, 1, deadline);
  if (!said.ok() || *said < size_) return false;
  store_->set(all_, "", deadline).IgnoreError();
  leave(deadline);
  return true;
}

absl::Status CloseBarrier::heard_all(Deadline deadline) {
  if (board_ != nullptr)
    return board_->wait_for_close_barrier(deadline)
               ? absl::OkStatus()
               : base::make_error({.reason = Reason::kTimedOut,
                                   .what = "not all ranks have ended the "
                                           "group"});
  const absl::Status status = store_->wait({all_}, deadline);
  if (status.ok()) leave(deadline);
  return status;
}

// The last rank to leave deletes the keys.
void CloseBarrier::leave(Deadline deadline) {
  const Deadline least = Deadline::after(kLeave);
  const Deadline until = deadline.ns() < least.ns() ? least : deadline;
  const absl::StatusOr<int64_t> heard = store_->add(heard_, 1, until);
  if (!heard.ok() || *heard < size_) return;
  for (const std::string& key : keys())
    store_->delete_key(key, until).IgnoreError();
}

std::vector<std::string> CloseBarrier::keys() const {
  if (board_ != nullptr) return {};
  return {said_, all_, heard_};
}

}  // namespace distwrap::group
