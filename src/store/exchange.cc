#include "store/exchange.h"

#include "base/error.h"
#include "base/log.h"
#include "store/interrupt.h"
#include "store/presence.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <set>

namespace distwrap::store {
namespace {

// The ranks whose keys the time-out lists as missing.
std::vector<int> missing_ranks(absl::string_view listed,
                               const std::vector<std::string>& blobs) {
  const std::set<absl::string_view> keys =
      absl::StrSplit(listed, '\n', absl::SkipEmpty());
  std::vector<int> ranks;
  for (size_t i = 0; i < blobs.size(); ++i)
    if (keys.contains(blobs[i])) ranks.push_back(static_cast<int>(i));
  return ranks;
}

constexpr absl::string_view kNoMemory = "a rank has no memory";

// One rank's wait for the blobs of all ranks.
class Gathering {
 public:
  Gathering(Store& store, absl::string_view key, int rank, Presence& presence,
            Deadline deadline)
      : store_(store),
        key_(key),
        rank_(rank),
        presence_(presence),
        blobs_(presence.blobs()),
        deadline_(deadline) {}

  absl::StatusOr<std::vector<std::string>> wait(absl::Duration report_every) {
    for (;;) {
      if (Interrupt::is_noticed()) return Interrupt::error("exchange");
      absl::StatusOr<std::vector<std::string>> values = store_.get_all(
          blobs_, Deadline::earlier(deadline_, Deadline::after(report_every)));
      if (values.ok() || error_reason(values.status()) != Reason::kTimedOut)
        return values;
      const ErrorInfo info = error_info(values.status()).value_or(ErrorInfo{});
      const bool told = !info.expected.empty();
      if (told) {
        missing_ = missing_ranks(info.expected, blobs_);
        told_ns_ = Deadline::now_ns();
      }
      const bool passed = deadline_.passed();
      if (told && !passed)
        base::log(
            base::LogLevel::kWarning,
            absl::StrCat("rank ", rank_, " waits in \"", key_, "\" since ",
                         since(started_ns_), " for ranks ",
                         base::rank_list(missing_), " of ", blobs_.size()));
      // A rank that gave up may not have woken every waiter. It wakes waiters
      // by filling the places of missing ranks, so a full list does not prove
      // that all ranks came.
      if (absl::Status over = presence_.check(deadline_); !over.ok()) {
        heard_ = true;
        return over;
      }
      if (passed) return not_all_came(told, info.cause);
    }
  }

  bool heard() const { return heard_; }
  const std::vector<int>& missing() const { return missing_; }

 private:
  static std::string since(int64_t ns) {
    return absl::FormatDuration(absl::Trunc(
        absl::Nanoseconds(Deadline::now_ns() - ns), absl::Milliseconds(1)));
  }

  // A slow store may not answer at the deadline; then the last answer counts.
  absl::Status not_all_came(bool told, const std::string& cause) const {
    ErrorInfo info{
        .reason = Reason::kTimedOut,
        .what = absl::StrCat(missing_.size(), " of ", blobs_.size(),
                             " ranks did not come to \"", key_, "\""),
        .op = "exchange",
        .my_rank = rank_,
        .group_size = static_cast<int>(blobs_.size()),
        .ranks = missing_,
        .elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_),
        .deadline = absl::Nanoseconds(
            std::max<int64_t>(0, deadline_.ns() - started_ns_)),
        .cause = cause,
        .next_step =
            "check whether these ranks were started, and look at their output"};
    if (missing_.empty()) {
      info.what = absl::StrCat("the store did not tell which of ",
                               blobs_.size(), " ranks came to \"", key_, "\"");
      info.next_step =
          "check whether this machine is overloaded, or the process that "
          "serves the store is stopped";
    } else if (!told) {
      info.cause =
          absl::StrCat("the store answered last ", since(told_ns_), " ago");
    }
    return base::make_error(info);
  }

  Store& store_;
  const absl::string_view key_;
  const int rank_;
  Presence& presence_;
  const std::vector<std::string>& blobs_;
  const Deadline deadline_;
  const int64_t started_ns_ = Deadline::now_ns();
  std::vector<int> missing_;  // as the store last reported them
  int64_t told_ns_ = 0;
  bool heard_ = false;  // the error comes from a rank that gave up
};

// Turns the error of another rank that gave up into this rank's error.
absl::Status as_own(const absl::Status& status, absl::string_view key, int rank,
                    int size, bool came_after) {
  return base::amend_error(status, [&](ErrorInfo& info) {
    const bool is_culprit =
        came_after || absl::c_linear_search(info.ranks, rank);
    if (info.reason == Reason::kTimedOut && is_culprit) {
      info.reason = Reason::kRefused;
      info.cause = info.what;
      info.what = absl::StrCat("rank ", rank, " came too late to \"", key,
                               "\": the others gave up");
      info.ranks = {rank};
      info.elapsed = info.deadline = absl::ZeroDuration();
      info.next_step = "start all ranks within the deadline of the first";
    }
    info.my_rank = rank;
    info.group_size = size;
  });
}

// Extracts the blobs from their texts, or returns the error of the first text
// that is no blob.
absl::Status unwrap(std::vector<std::string>* texts) {
  for (std::string& text : *texts) {
    const absl::Status status = Presence::error_in(text);
    if (!status.ok()) return status;
    text.erase(0, 1);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> exchange(
    Store& store, absl::string_view key, int rank, int size,
    absl::string_view blob, Deadline deadline, absl::Duration report_every) {
  if (size < 1 || rank < 0 || rank >= size)
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = "the rank is not one of the group's",
                             .op = "exchange",
                             .expected = absl::StrCat("0 <= rank < ", size),
                             .actual = absl::StrCat(rank)});

  Presence presence(store, key, size);
  // Other ranks hear of a rank that ends for a reason of its own; else they
  // would wait for it.
  const auto give_up_alone = [&](absl::string_view what,
                                 const absl::Status& why) {
    presence.give_up({.reason = Reason::kAborted,
                      .what = std::string(what),
                      .op = "exchange",
                      .ranks = {rank},
                      .cause = base::cause_text(why)},
                     rank, {}, deadline);
  };
  if (absl::Status status = presence.enter(deadline); !status.ok()) {
    // The reason of another rank may be that it has no memory.
    if (presence.is_over()) return as_own(status, key, rank, size, true);
    if (error_reason(status) == Reason::kOutOfMemory)
      give_up_alone(kNoMemory, status);
    return status;
  }
  absl::Status status = store.set(presence.blobs()[static_cast<size_t>(rank)],
                                  Presence::blob_text(blob), deadline);
  Gathering gathering(store, key, rank, presence, deadline);
  absl::StatusOr<std::vector<std::string>> values =
      status.ok() ? gathering.wait(report_every)
                  : absl::StatusOr<std::vector<std::string>>(status);
  if (!values.ok() && !gathering.heard()) {
    if (error_reason(values.status()) == Reason::kTimedOut)
      presence.give_up(*error_info(values.status()), rank, gathering.missing(),
                       deadline);
    else if (error_reason(values.status()) == Reason::kOutOfMemory)
      give_up_alone(kNoMemory, values.status());
    else if (error_reason(values.status()) == Reason::kAborted)
      give_up_alone("a rank was interrupted", values.status());
    else
      presence.leave(deadline);
    return values;
  }
  presence.leave(deadline);
  status = values.ok() ? unwrap(&*values) : values.status();
  if (!status.ok()) return as_own(status, key, rank, size, false);
  return values;
}

void give_up_exchange(Store& store, absl::string_view key, int rank, int size,
                      const ErrorInfo& why, Deadline deadline) {
  Presence(store, key, size).give_up(why, rank, {}, deadline);
}

}  // namespace distwrap::store
