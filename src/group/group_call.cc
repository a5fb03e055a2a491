#include "group/group_call.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "group/board_call.h"
#include "store/interrupt.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace distwrap::group {
namespace {

constexpr size_t kMaxText = 4096;
// A decision is this text, followed by the words if there are any, or an error.
constexpr char kAgreed[] = "agreed";
// After this time a rank writes its name, for ranks that ask who is missing.
constexpr absl::Duration kPatience = absl::Seconds(1);
constexpr absl::Duration kReportEvery = absl::Seconds(5);
// The time beyond the deadline for asking who is missing.
constexpr absl::Duration kAskTime = absl::Milliseconds(30);
// The time beyond the deadline for leaving.
constexpr absl::Duration kLeaveTime = absl::Milliseconds(50);

struct Note {
  int rank = -1;
  uint64_t hash = 0;
  std::string text;
};

std::string encode(const Note& note) {
  base::ByteWriter out;
  out.i64(note.rank);
  out.u64(note.hash);
  out.text(note.text);
  return out.take();
}

Note decode(absl::string_view bytes) {
  base::ByteReader in(bytes);
  Note note;
  note.rank = static_cast<int>(in.i64());
  note.hash = in.u64();
  note.text = std::string(in.text(kMaxText));
  return in.done() ? note : Note{};
}

class Meeting {
 public:
  Meeting(GroupState& group, const CallTerms& terms,
          std::optional<absl::string_view> word, Deadline deadline)
      : group_(group),
        terms_(terms),
        word_(word),
        store_(*group.store()),
        key_(group.key(absl::StrCat("call/", group.next_call(), "/"))),
        deadline_(deadline) {}

  // Returns the words of all ranks, one behind the other.
  absl::StatusOr<std::string> run() {
    group_.waits_in(key_);
    absl::StatusOr<std::string> decision = decide();
    group_.waits_in("");
    leave();
    const bool agreed = decision.ok() && absl::StartsWith(*decision, kAgreed);
    if (agreed) return decision->substr(sizeof kAgreed - 1);
    leave_keys();
    if (!decision.ok()) return located(decision.status());
    const auto info = base::decode_error(*decision);
    return located(base::make_error(info.value_or(ErrorInfo{
        .reason = Reason::kCallMismatch, .what = "the ranks did not agree"})));
  }

  // Decides the call for all ranks: this rank does not make it.
  void refuse(const ErrorInfo& why) {
    give(base::encode_error(why), deadline_).IgnoreError();
    leave();
    leave_keys();
  }

 private:
  void leave_keys() {
    group_.leave_behind({key("terms"), key("here"), key("decision"),
                         key("gone"), word_key(group_.rank())});
  }

  std::string key(absl::string_view what) const {
    return absl::StrCat(key_, what);
  }

  absl::Status located(const absl::Status& status) const {
    return base::amend_error(status, [&](ErrorInfo& info) {
      info.op = terms_.op;
      info.group = group_.name();
      info.my_rank = group_.rank();
      info.group_size = group_.size();
    });
  }

  // Offers a decision; the first one that is offered counts.
  absl::StatusOr<std::string> give(absl::string_view decision,
                                   Deadline deadline) {
    return store_.compare_set(key("decision"), "", decision, deadline);
  }

  absl::StatusOr<std::string> decide() {
    const Note mine{group_.rank(), terms_.hash,
                    absl::StrCat(terms_.op, " ", terms_.text)};
    const absl::StatusOr<std::string> first =
        store_.compare_set(key("terms"), "", encode(mine), deadline_);
    if (!first.ok()) return first.status();
    const Note theirs = decode(*first);
    if (theirs.hash != mine.hash)
      return give(base::encode_error(mismatch(mine, theirs)), deadline_);
    if (word_.has_value())
      if (absl::Status status =
              store_.set(word_key(group_.rank()), *word_, deadline_);
          !status.ok())
        return status;
    const absl::StatusOr<int64_t> here = store_.add(key("here"), 1, deadline_);
    if (!here.ok()) return here.status();
    if (*here < group_.size()) return wait();
    const absl::StatusOr<std::string> words = collect();
    if (!words.ok()) return words.status();
    return give(absl::StrCat(kAgreed, *words), deadline_);
  }

  // Called by the last rank: all words are there, and no other rank reads them.
  absl::StatusOr<std::string> collect() {
    if (!word_.has_value()) return std::string();
    std::vector<std::string> keys;
    for (int rank = 0; rank < group_.size(); ++rank)
      keys.push_back(word_key(rank));
    const absl::StatusOr<std::vector<std::string>> words =
        store_.get_all(keys, deadline_);
    if (!words.ok()) return words.status();
    base::ByteWriter all;
    for (const std::string& word : *words) all.text(word);
    for (const std::string& one : keys)
      store_.delete_key(one, deadline_).IgnoreError();
    return all.take();
  }

  ErrorInfo mismatch(const Note& mine, const Note& theirs) const {
    return {.reason = Reason::kCallMismatch,
            .what = absl::StrCat("ranks ", theirs.rank, " and ", mine.rank,
                                 " made different calls"),
            .ranks = {std::min(mine.rank, theirs.rank),
                      std::max(mine.rank, theirs.rank)},
            .expected = absl::StrCat(theirs.text, " (rank ", theirs.rank, ")"),
            .actual = absl::StrCat(mine.text, " (rank ", mine.rank, ")"),
            .next_step =
                "make the same call with equal arguments on all "
                "ranks of the group"};
  }

  absl::StatusOr<std::string> wait() {
    Deadline step = Deadline::earlier(
        deadline_,
        Deadline::after(std::min(kPatience, deadline_.remaining() / 2)));
    for (;;) {
      if (store::Interrupt::is_noticed())
        return store::Interrupt::error(terms_.op);
      absl::StatusOr<std::string> decision = store_.get(key("decision"), step);
      if (decision.ok() || error_reason(decision.status()) != Reason::kTimedOut)
        return decision;
      const absl::Duration elapsed =
          absl::Nanoseconds(Deadline::now_ns() - started_ns_);
      if (deadline_.passed())
        return give(base::encode_error(timed_out(elapsed)),
                    Deadline::after(kLeaveTime));
      if (!named_) {
        named_ = true;
        store_.set(here_key(group_.rank()), "", deadline_).IgnoreError();
      } else {
        warn_of_waiting(group_, terms_.op, started_ns_, {});
      }
      step = Deadline::earlier(deadline_, Deadline::after(kReportEvery));
    }
  }

  std::string here_key(int rank) const {
    return key(absl::StrCat("here/", rank));
  }
  std::string word_key(int rank) const {
    return key(absl::StrCat("word/", rank));
  }

  ErrorInfo timed_out(absl::Duration elapsed) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < group_.size(); ++rank)
      keys.push_back(here_key(rank));
    std::vector<int> missing;
    const absl::StatusOr<std::vector<std::string>> all =
        store_.get_all(keys, Deadline::after(kAskTime));
    if (!all.ok()) {
      const std::string listed = absl::StrCat(
          "\n", error_info(all.status()).value_or(ErrorInfo{}).expected, "\n");
      for (int rank = 0; rank < group_.size(); ++rank)
        if (rank != group_.rank() &&
            listed.find(absl::StrCat("\n", here_key(rank), "\n")) !=
                std::string::npos)
          missing.push_back(rank);
    }
    return {.reason = Reason::kTimedOut,
            .what = "not all ranks of the group made this call",
            .ranks = missing,
            .elapsed = elapsed,
            .deadline = limit_,
            .setting = base::kInitLimit,
            .next_step = "make the call on all ranks of the group"};
  }

  // The last rank deletes the keys. Failures are ignored: remaining keys are
  // deleted with the group.
  void leave() {
    const Deadline least = Deadline::after(kLeaveTime);
    const Deadline until = deadline_.ns() < least.ns() ? least : deadline_;
    if (named_) store_.delete_key(here_key(group_.rank()), until).IgnoreError();
    const absl::StatusOr<int64_t> gone = store_.add(key("gone"), 1, until);
    if (!gone.ok() || *gone < group_.size()) return;
    for (const char* const what : {"terms", "here", "decision", "gone"})
      store_.delete_key(key(what), until).IgnoreError();
  }

  GroupState& group_;
  const CallTerms& terms_;
  const std::optional<absl::string_view> word_;
  Store& store_;
  const std::string key_;
  const Deadline deadline_;
  const int64_t started_ns_ = Deadline::now_ns();
  const absl::Duration limit_ = limit_of(deadline_);
  bool named_ = false;
};

}  // namespace

absl::Duration limit_of(Deadline deadline) {
  return absl::Floor(absl::Nanoseconds(deadline.ns() - Deadline::now_ns()) +
                         absl::Microseconds(500),
                     absl::Milliseconds(1));
}

void warn_of_waiting(const GroupState& group, absl::string_view op,
                     int64_t since_ns, const std::vector<int>& missing) {
  const absl::Duration elapsed =
      absl::Nanoseconds(Deadline::now_ns() - since_ns);
  base::log(
      base::LogLevel::kWarning,
      absl::StrCat("rank ", group.rank(), " of \"", group.name(),
                   "\" waits in ", op, " since ",
                   absl::FormatDuration(absl::Trunc(elapsed, absl::Seconds(1))),
                   missing.empty() ? "" : " for ranks ",
                   base::rank_list(missing)));
}

absl::Status meet_for_call(GroupState& group, const CallTerms& terms,
                           Deadline deadline) {
  if (group.size() == 1) return absl::OkStatus();
  return Meeting(group, terms, std::nullopt, deadline).run().status();
}

absl::StatusOr<std::vector<std::string>> gather_for_call(GroupState& group,
                                                         const CallTerms& terms,
                                                         absl::string_view word,
                                                         Deadline deadline) {
  if (group.size() == 1) return std::vector<std::string>{std::string(word)};
  const absl::StatusOr<std::string> bytes =
      Meeting(group, terms, word, deadline).run();
  if (!bytes.ok()) return bytes.status();
  base::ByteReader in(*bytes);
  std::vector<std::string> words;
  for (int rank = 0; rank < group.size(); ++rank)
    words.emplace_back(in.text(kMaxText));
  return words;
}

uint64_t meetings_of(const GroupState& group) {
  const std::shared_ptr<comm::GroupBoard> group_board = group.group_board();
  return group_board == nullptr ? 0 : group_board->meetings();
}

void refuse_thrown_call(GroupState& group, uint64_t met, const char* op,
                        const absl::Status& error) {
  constexpr absl::Duration kTell = absl::Seconds(1);
  base::guarded(op, [&] {
    if (group.group_board() != nullptr && meetings_of(group) == met)
      refuse_call(group, {op, 0, ""},
                  {.reason = Reason::kAborted,
                   .what = "another rank could not make the call",
                   .ranks = {group.rank()},
                   .cause = base::cause_text(error)},
                  Deadline::after(kTell));
    return absl::OkStatus();
  }).IgnoreError();
}

ErrorInfo aborted_call(const GroupState& group) {
  return {.reason = Reason::kAborted,
          .what = "a rank aborted the group",
          .ranks = {group.rank()},
          .next_step = "see what that rank reports"};
}

void abort_call(GroupState& group, Deadline tell) {
  group.count_abort();
  const std::string call = group.waits_in();
  if (call.empty()) return;
  const std::string decision = absl::StrCat(call, "decision");
  group.store()
      ->compare_set(decision, "", base::encode_error(aborted_call(group)), tell)
      .IgnoreError();
  // The call may have ended meanwhile and deleted its keys.
  group.leave_behind({decision});
}

void refuse_call(GroupState& group, const CallTerms& terms,
                 const ErrorInfo& why, Deadline deadline) {
  if (group.size() == 1) return;
  if (const auto board = BoardCall::begin(group, terms, deadline))
    return board->refuse(why);
  Meeting(group, terms, std::nullopt, deadline).refuse(why);
}

}  // namespace distwrap::group
