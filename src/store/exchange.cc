#include "store/exchange.h"

#include "base/error.h"
#include "base/log.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

namespace distwrap::store {
namespace {

// What leaving may take beyond the deadline of a failed exchange.
constexpr absl::Duration kLeaveTime = absl::Milliseconds(50);

// The ranks that are present: one that knows of nobody else deletes the keys.
class Presence {
 public:
  Presence(Store& store, absl::string_view key,
           const std::vector<std::string>& blobs)
      : store_(store), key_(absl::StrCat(key, "/present")), blobs_(blobs) {}

  absl::Status enter(Deadline deadline) {
    return store_.add(key_, 1, deadline).status();
  }

  // Failures are nobody's: this rank has its result, and keys that stay end
  // with the job.
  void leave(Deadline deadline) {
    const Deadline least = Deadline::after(kLeaveTime);
    const Deadline until = deadline.ns() < least.ns() ? least : deadline;
    const absl::StatusOr<int64_t> others = store_.add(key_, -1, until);
    if (!others.ok() || *others > 0) return;
    for (const std::string& blob : blobs_)
      if (!store_.delete_key(blob, until).ok()) return;
    store_.delete_key(key_, until).IgnoreError();
  }

 private:
  Store& store_;
  const std::string key_;
  const std::vector<std::string>& blobs_;
};

// Ranks whose keys the time-out lists.
std::vector<int> missing_ranks(const absl::Status& status,
                               const std::vector<std::string>& blobs) {
  const std::string listed = error_info(status).value_or(ErrorInfo{}).expected;
  const absl::flat_hash_set<absl::string_view> keys =
      absl::StrSplit(listed, '\n', absl::SkipEmpty());
  std::vector<int> ranks;
  for (size_t i = 0; i < blobs.size(); ++i)
    if (keys.contains(blobs[i])) ranks.push_back(static_cast<int>(i));
  return ranks;
}

absl::StatusOr<std::vector<std::string>> gather(
    Store& store, absl::string_view key, int rank,
    const std::vector<std::string>& blobs, Deadline deadline,
    absl::Duration report_every) {
  const int64_t started = Deadline::now_ns();
  for (;;) {
    const Deadline step =
        Deadline::earlier(deadline, Deadline::after(report_every));
    absl::StatusOr<std::vector<std::string>> values =
        store.get_all(blobs, step);
    if (values.ok() || error_reason(values.status()) != Reason::kTimedOut)
      return values;
    const std::vector<int> missing = missing_ranks(values.status(), blobs);
    const absl::Duration elapsed =
        absl::Nanoseconds(Deadline::now_ns() - started);
    if (deadline.passed())
      return base::make_error(
          {.reason = Reason::kTimedOut,
           .what = absl::StrCat(missing.size(), " of ", blobs.size(),
                                " ranks did not come to \"", key, "\""),
           .op = "exchange",
           .my_rank = rank,
           .group_size = static_cast<int>(blobs.size()),
           .ranks = missing,
           .elapsed = elapsed,
           .deadline = deadline.ns() > started
                           ? absl::Nanoseconds(deadline.ns() - started)
                           : absl::ZeroDuration(),
           .next_step = "see whether these ranks were started and what they "
                        "printed"});
    if (!missing.empty())
      base::log(
          base::LogLevel::kWarning,
          absl::StrCat(
              "rank ", rank, " waits in \"", key, "\" since ",
              absl::FormatDuration(absl::Trunc(elapsed, absl::Milliseconds(1))),
              " for ranks ", base::rank_list(missing), " of ", blobs.size()));
  }
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
  std::vector<std::string> blobs;
  blobs.reserve(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) blobs.push_back(absl::StrCat(key, "/", i));

  Presence presence(store, key, blobs);
  if (absl::Status status = presence.enter(deadline); !status.ok())
    return status;
  const auto give_and_gather =
      [&]() -> absl::StatusOr<std::vector<std::string>> {
    const std::string& mine = blobs[static_cast<size_t>(rank)];
    if (absl::Status status = store.set(mine, blob, deadline); !status.ok())
      return status;
    return gather(store, key, rank, blobs, deadline, report_every);
  };
  absl::StatusOr<std::vector<std::string>> values = give_and_gather();
  presence.leave(deadline);
  return values;
}

}  // namespace distwrap::store
