#include "store/round.h"

#include "base/error.h"
#include "store/process_identity.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include <atomic>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

// A rank's place holds the identity of the process that is in it, or was.
constexpr char kIn[] = "in ";
constexpr char kLeft[] = "left ";
// The value of a key, "" when it does not exist; a compare_set that changes
// nothing.
absl::StatusOr<std::string> peek(Store& store, absl::string_view key,
                                 Deadline deadline) {
  constexpr char kNever[] = "?";
  return store.compare_set(key, kNever, kNever, deadline);
}

// A number that distinguishes the attempts of one process.
int64_t next_try() {
  static std::atomic<int64_t> tries{0};
  return ++tries;
}

// The identity in a value such as "in 31000 123456 4026531836 #7 hosta".
std::optional<ProcessIdentity> holder_of(absl::string_view value) {
  if (!absl::ConsumePrefix(&value, kIn) && !absl::ConsumePrefix(&value, kLeft))
    return std::nullopt;
  return ProcessIdentity::decode(value.substr(0, value.rfind(" #")));
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// The host in such a value; "" when it is this process's.
std::string host_in(absl::string_view value) {
  const size_t mark = value.rfind(" #");
  const size_t blank =
      mark == value.npos ? value.npos : value.find(' ', mark + 2);
  const std::string host(blank == value.npos ? absl::string_view()
                                             : value.substr(blank + 1));
  return host == host_name() ? "" : host;
}

absl::Status has_place(int rank, const ProcessIdentity& holder,
                       const std::string& host) {
  const bool own = holder == ProcessIdentity::of_self();
  return base::make_error(
      {.reason = Reason::kRefused,
       .what = absl::StrCat(
           "rank ", rank, " of this job is taken by ",
           own ? "another session of this process, " : "process ", holder.pid,
           host.empty() ? ""
                        : absl::StrCat(" on ", host, "; this is process ",
                                       getpid(), " on ", host_name())),
       .op = "init",
       .my_rank = rank,
       .ranks = {rank},
       .next_step = "start each rank once; two jobs need different job ids or "
                    "init methods"});
}

}  // namespace

Round::Round(std::shared_ptr<Store> store, const RoundMember& member,
             Count count)
    : store_(std::move(store)),
      member_(member),
      count_(std::move(count)),
      number_(count_.open),
      token_(absl::StrCat(ProcessIdentity::of_self().encode(), " #", next_try(),
                          " ", host_name())) {}

std::string Round::key_of(int64_t number, absl::string_view what) const {
  return absl::StrCat(member_.job, member_.job.empty() ? "" : "/", "session/",
                      number, "/", what);
}

std::string Round::key(absl::string_view what) const {
  return key_of(number_, what);
}

std::string Round::rank_key(int64_t number, int rank) const {
  return key_of(number, absl::StrCat("rank/", rank));
}

std::string Round::counter_of(const RoundMember& member) {
  return absl::StrCat(member.job, member.job.empty() ? "" : "/", "round");
}

// The counter as text: "3 1", or "3 1 123456789 rank 2 is missing".
std::string Round::text_of(const Count& count) {
  std::string text = absl::StrCat(count.open, " ", count.complete);
  if (count.given_up >= 0)
    absl::StrAppend(&text, " ", count.given_up, " ", count.why);
  return text;
}

absl::StatusOr<Round::Count> Round::parse(absl::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits(' ', 3));
  Count count;
  if (parts.size() >= 2 && parts.size() != 3 &&
      absl::SimpleAtoi(parts[0], &count.open) &&
      absl::SimpleAtoi(parts[1], &count.complete) &&
      (parts.size() == 2 || absl::SimpleAtoi(parts[2], &count.given_up))) {
    if (parts.size() == 4) count.why = parts[3];
    return count;
  }
  return base::make_error(
      {.reason = Reason::kRefused,
       .what = "the store's counter of sessions cannot be read",
       .op = "init",
       .actual = absl::StrCat("'", text, "'"),
       .next_step = "give the job a store of its own"});
}

absl::StatusOr<Round::Count> Round::read_count(Store& store,
                                               const RoundMember& member,
                                               Deadline deadline) {
  const absl::StatusOr<std::string> text =
      store.compare_set(counter_of(member), "", text_of(Count{}), deadline);
  if (!text.ok()) return text.status();
  return parse(*text);
}

absl::StatusOr<Round> Round::enter(const std::shared_ptr<Store>& store,
                                   const RoundMember& member,
                                   Deadline deadline) {
  for (;;) {
    absl::StatusOr<Count> count = read_count(*store, member, deadline);
    if (!count.ok()) return count.status();
    Round round(store, member, *std::move(count));
    if (absl::Status status = round.check_running(deadline); !status.ok())
      return status;
    if (absl::Status status = round.take_place(deadline); !status.ok())
      return status;
    if (absl::Status status = round.check_in_time(deadline); !status.ok()) {
      round.leave(deadline);
      return status;
    }
    // The round may have ended in between: it was completed, if a dead process
    // had the place before, or given up.
    const absl::StatusOr<Count> still = read_count(*store, member, deadline);
    if (!still.ok()) return still.status();
    if (still->open == round.number_) {
      // The previous round tells whether this process was in it.
      if (round.number_ - 2 > still->complete)
        round.forget(round.number_ - 2, deadline);
      return round;
    }
    round.leave(deadline);
    if (still->given_up >= 0) return round.too_late(*still);
  }
}

// kRefused when another process has this rank in the round that runs.
absl::Status Round::check_running(Deadline deadline) const {
  if (count_.complete == 0) return absl::OkStatus();
  const std::string running = rank_key(count_.complete, member_.rank);
  const absl::StatusOr<std::string> value = peek(*store_, running, deadline);
  if (!value.ok()) return value.status();
  const std::optional<ProcessIdentity> holder = holder_of(*value);
  if (holder.has_value() && absl::StartsWith(*value, kIn) &&
      !(*holder == ProcessIdentity::of_self()) && holder->may_live())
    return has_place(member_.rank, *holder, host_in(*value));
  return absl::OkStatus();
}

absl::Status Round::take_place(Deadline deadline) {
  const std::string place = rank_key(number_, member_.rank);
  const std::string mine = absl::StrCat(kIn, token_);
  std::string expected;
  for (;;) {
    const absl::StatusOr<std::string> value =
        store_->compare_set(place, expected, mine, deadline);
    if (!value.ok()) return value.status();
    if (*value == mine) return absl::OkStatus();
    const std::optional<ProcessIdentity> holder = holder_of(*value);
    if (holder.has_value()) {
      if (absl::StartsWith(*value, kIn) && holder->may_live())
        return has_place(member_.rank, *holder, host_in(*value));
      came_before_ = *holder == ProcessIdentity::of_self();
    }
    expected = *value;  // the value of a process that left or died
  }
}

absl::Status Round::too_late(const Count& count) const {
  ErrorInfo info{.reason = Reason::kRefused,
                 .what = absl::StrCat("rank ", member_.rank,
                                      " came too late: the others gave up"),
                 .op = "init",
                 .my_rank = member_.rank,
                 .cause = count.why,
                 .next_step =
                     "start all ranks within the init deadline "
                     "(DISTWRAP_INIT_TIMEOUT)"};
  if (count.given_up >= 0)
    info.elapsed = absl::Nanoseconds(boot_clock_ns() - count.given_up);
  return base::make_error(info);
}

absl::Status Round::check_in_time(Deadline deadline) {
  if (count_.given_up < 0) return absl::OkStatus();
  const absl::StatusOr<std::string> before =
      peek(*store_, rank_key(number_ - 1, member_.rank), deadline);
  if (!before.ok()) return before.status();
  const std::optional<ProcessIdentity> holder = holder_of(*before);
  if (holder.has_value() && *holder == ProcessIdentity::of_self())
    came_before_ = true;
  if (!came_before_ && own_start_ns() < count_.given_up)
    return too_late(count_);
  return reopen(deadline);
}

// Opens a new attempt, for which no rank is too late.
absl::Status Round::reopen(Deadline deadline) {
  Count open = count_;
  open.given_up = -1;
  open.why.clear();
  const absl::StatusOr<std::string> text = store_->compare_set(
      counter_of(member_), text_of(count_), text_of(open), deadline);
  if (text.ok()) count_ = open;
  return text.status();
}

// Deletes the keys of a round that was given up.
void Round::forget(int64_t number, Deadline deadline) const {
  for (const std::string& key :
       {rank_key(number, member_.rank), key_of(number, "terms"),
        key_of(number, "hello/present"), key_of(number, "hello/over")})
    if (!store_->delete_key(key, deadline).ok()) return;
}

std::string Round::own_terms() const {
  return absl::StrCat(member_.rank, " ", member_.size, " ", getpid(), " ",
                      host_name(), " ", member_.terms);
}

absl::Status Round::agree(Deadline deadline) {
  const absl::StatusOr<std::string> value =
      store_->compare_set(key("terms"), "", own_terms(), deadline);
  if (!value.ok()) return value.status();
  std::vector<std::string> first =
      absl::StrSplit(*value, absl::MaxSplits(' ', 4));
  first.resize(5);
  if (!absl::SimpleAtoi(first[1], &first_size_)) first_size_ = 0;
  if (first[4] == member_.terms) return absl::OkStatus();
  int rank = -1;
  if (!absl::SimpleAtoi(first[0], &rank)) rank = -1;
  return base::make_error(
      {.reason = Reason::kCallMismatch,
       .what = "ranks were started differently",
       .op = "init",
       .my_rank = member_.rank,
       .ranks = {rank},
       .expected = absl::StrCat(member_.terms, ", process ", getpid(), " on ",
                                host_name(), " (here)"),
       .actual =
           absl::StrCat(first[4], ", process ", first[2], " on ", first[3]),
       .next_step = "start all ranks with the same options"});
}

std::string Round::other_terms(Deadline deadline) const {
  const absl::StatusOr<std::string> value =
      peek(*store_, key("terms"), deadline);
  const std::vector<std::string> parts =
      absl::StrSplit(value.value_or(""), absl::MaxSplits(' ', 4));
  return parts.size() == 5 && parts[4] != member_.terms ? parts[4]
                                                        : "other options";
}

// Moves the counter to `next` unless the round has already ended; returns the
// counter afterwards.
absl::StatusOr<Round::Count> Round::end_with(const Count& next,
                                             Deadline deadline) {
  for (;;) {
    const absl::StatusOr<std::string> text = store_->compare_set(
        counter_of(member_), text_of(count_), text_of(next), deadline);
    if (!text.ok()) return text.status();
    absl::StatusOr<Count> now = parse(*text);
    if (!now.ok() || now->open != number_) return now;
    count_ = *std::move(now);  // another rank had already opened a new one
  }
}

absl::Status Round::close(Deadline deadline) {
  const int64_t complete_before = count_.complete;
  const absl::StatusOr<Count> now =
      end_with({.open = number_ + 1, .complete = number_}, deadline);
  if (!now.ok()) return now.status();
  if (now->complete != number_) return too_late(*now);
  closed_ = true;
  if (number_ - 1 > complete_before) forget(number_ - 1, deadline);
  return absl::OkStatus();
}

bool Round::give_up(absl::string_view why, Deadline deadline) {
  const absl::StatusOr<Count> now = end_with({.open = number_ + 1,
                                              .complete = count_.complete,
                                              .given_up = boot_clock_ns(),
                                              .why = std::string(why)},
                                             deadline);
  return !now.ok() || now->complete != number_;
}

void Round::leave(Deadline deadline) {
  if (!closed_) {
    store_
        ->compare_set(rank_key(number_, member_.rank),
                      absl::StrCat(kIn, token_), absl::StrCat(kLeft, token_),
                      deadline)
        .IgnoreError();
    // A new attempt may have other terms.
    store_->compare_set(key("terms"), own_terms(), "", deadline).IgnoreError();
    return;
  }
  // No rank enters this round any more.
  store_->delete_key(rank_key(number_, member_.rank), deadline).IgnoreError();
  if (member_.rank != 0) return;
  store_->delete_key(key("terms"), deadline).IgnoreError();
}

}  // namespace distwrap::store
