#include "group/board_call.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/exceptions.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace distwrap::group {
namespace {

// The time to read why a meeting failed, and to report it at the deadline.
constexpr absl::Duration kTell = absl::Milliseconds(50);
// The bytes before a word in a note: the hash of the call and the kind of note.
constexpr size_t kHead = 9;
// The limit of a name or a cause inside an error that has to fit into a note.
constexpr size_t kMostText = 64;

std::string shortened(const std::string& text) {
  return text.size() <= kMostText
             ? text
             : absl::StrCat(text.substr(0, kMostText), "...");
}

// The error, shortened so that it fits into a note.
std::string brief(const ErrorInfo& failed) {
  std::string whole = base::encode_error(failed);
  if (whole.size() + kHead <= comm::Note::kMostBytes) return whole;
  whole = base::encode_error({.reason = failed.reason,
                              .what = shortened(failed.what),
                              .ranks = failed.ranks,
                              .cause = shortened(failed.cause)});
  if (whole.size() + kHead <= comm::Note::kMostBytes) return whole;
  return base::encode_error(
      {.reason = failed.reason, .what = "another rank could not build"});
}

}  // namespace

std::unique_ptr<BoardCall> BoardCall::begin(GroupState& group, CallTerms terms,
                                            Deadline deadline) {
  std::shared_ptr<comm::GroupBoard> group_board = group.group_board();
  if (group_board == nullptr) return nullptr;
  return std::unique_ptr<BoardCall>(
      new BoardCall(group, std::move(group_board), std::move(terms), deadline));
}

BoardCall::BoardCall(GroupState& group,
                     std::shared_ptr<comm::GroupBoard> group_board,
                     CallTerms terms, Deadline deadline)
    : group_(group),
      board_(std::move(group_board)),
      terms_(std::move(terms)),
      deadline_(deadline),
      limit_(limit_of(deadline)),
      lock_(group.meeting_mutex()),
      number_(board_->meetings() + 1) {}

BoardCall::~BoardCall() {
  base::guarded("", [&] {
    // An exception ended the call half-way, because an allocation has failed.
    const bool is_thrown_away =
        building_ && std::uncaught_exceptions() > exceptions_;
    if (has_to_meet() || is_thrown_away)
      round(Saying::kFailed,
            brief({.reason = Reason::kAborted,
                   .what = "another rank could not build the group"}))
          .IgnoreError();
    return absl::OkStatus();
  }).IgnoreError();
  base::guarded("", [&] {
    while (building_)
      if (!round(Saying::kOver, "").ok()) break;
    return absl::OkStatus();
  }).IgnoreError();
}

ErrorInfo BoardCall::located(ErrorInfo info) const {
  info.op = terms_.op;
  info.group = group_.name();
  info.my_rank = group_.rank();
  info.group_size = group_.size();
  return info;
}

std::string BoardCall::key() const {
  return group_.key(absl::StrCat("met/", board_->meetings()));
}

ErrorInfo BoardCall::late(const char* what) const {
  return {.reason = Reason::kTimedOut,
          .what = what,
          .elapsed = absl::Nanoseconds(Deadline::now_ns() - started_ns_),
          .deadline = limit_,
          .setting = base::kInitLimit,
          .next_step = "make the call on all ranks of the group"};
}

void BoardCall::waits_for(const std::vector<int>& missing) {
  warn_of_waiting(group_, terms_.op, started_ns_, missing);
}

std::optional<ErrorInfo> BoardCall::stops() {
  if (group_.aborts() == aborts_) return std::nullopt;
  return aborted_call(group_);
}

void BoardCall::gives_up(const std::vector<int>& missing,
                         std::optional<ErrorInfo> lost) {
  if (!lost.has_value()) {
    lost = late("not all ranks of the group made this call");
    lost->ranks = missing;
  }
  gave_up_ = lost;
  group_.store()
      ->compare_set(key(), "", base::encode_error(*lost),
                    Deadline::after(kTell))
      .IgnoreError();
}

absl::StatusOr<comm::GroupBoard::Notes> BoardCall::notes(
    absl::string_view note) {
  // An earlier attempt may have ended differently.
  gave_up_.reset();
  std::optional<comm::GroupBoard::Notes> all;
  try {
    all = board_->meet(note, deadline_, *this);
  } catch (...) {
    // The meeting has failed on all ranks.
    met_ = true;
    building_ = false;
    throw;
  }
  if (all.has_value()) return *std::move(all);
  building_ = false;
  group_.leave_behind({key()});
  const absl::StatusOr<std::string> told =
      group_.store()->get(key(), Deadline::after(kTell));
  std::optional<ErrorInfo> why =
      told.ok() ? base::decode_error(*told) : std::nullopt;
  // The store may have ended with the lost rank, or be too slow.
  if (!why.has_value()) why = gave_up_;
  if (!why.has_value()) why = board_->ask();
  if (!why.has_value()) why = board_->who_gave_up();
  return base::make_error(located(why.value_or(
      late("the other ranks do not wait for this call any more"))));
}

absl::StatusOr<std::vector<std::string>> BoardCall::meet(
    absl::string_view word) {
  base::ByteWriter mine;
  mine.u64(terms_.hash);
  mine.bytes(word);
  absl::StatusOr<comm::GroupBoard::Notes> all = notes(mine.str());
  if (!all.ok()) return all.status();
  if (!all_same(*all)) return different(*all);
  // Other ranks continue, whatever happens here.
  met_ = building_ = true;
  std::vector<std::string> words;
  for (const std::string& note : *all) {
    base::ByteReader in(note);
    in.u64();
    words.emplace_back(in.bytes(in.left()));
  }
  return words;
}

// All ranks come here with the same notes and therefore choose the same error.
absl::Status BoardCall::different(const comm::GroupBoard::Notes& hashes) {
  const absl::StatusOr<comm::GroupBoard::Notes> calls =
      notes(absl::StrCat(terms_.op, " ", terms_.text));
  if (!calls.ok()) return calls.status();
  const auto of = [&](size_t rank) {
    return base::ByteReader(hashes[rank]).u64();
  };
  size_t other = 1;
  while (other + 1 < hashes.size() && of(other) == of(0)) ++other;
  return base::make_error(located(
      {.reason = Reason::kCallMismatch,
       .what = absl::StrCat("ranks 0 and ", other, " made different calls"),
       .ranks = {0, static_cast<int>(other)},
       .expected = absl::StrCat((*calls)[0], " (rank 0)"),
       .actual = absl::StrCat((*calls)[other], " (rank ", other, ")"),
       .next_step = "make the same call with equal arguments on all ranks of "
                    "the group"}));
}

void BoardCall::refuse(const ErrorInfo& why) {
  const std::string at =
      group_.key(absl::StrCat("met/", board_->meetings() + 1));
  group_.store()
      ->compare_set(at, "", base::encode_error(why), deadline_)
      .IgnoreError();
  board_->refuse_meeting();
  group_.leave_behind({at});
}

absl::StatusOr<std::vector<BoardCall::Said>> BoardCall::round(
    Saying saying, absl::string_view word) {
  const bool meets = has_to_meet();
  base::ByteWriter mine;
  if (meets) mine.u64(terms_.hash);
  mine.u8(static_cast<uint8_t>(saying));
  mine.bytes(word);
  const absl::StatusOr<comm::GroupBoard::Notes> all = notes(mine.str());
  if (!all.ok()) {
    if (meets) failure_ = all.status();
    return all.status();
  }
  if (meets && !all_same(*all)) return failure_ = different(*all);
  met_ = true;
  if (meets) building_ = true;
  const auto saying_in = [meets](base::ByteReader& in) {
    if (meets) in.u64();
    return static_cast<Saying>(in.u8());
  };
  bool over = true, too_long = false;
  for (const std::string& note : *all) {
    base::ByteReader in(note);
    const Saying what = saying_in(in);
    over = over && (what == Saying::kBuilt || what == Saying::kFailed ||
                    what == Saying::kOver);
    too_long = too_long || what == Saying::kTooLong;
  }
  if (over || too_long) building_ = false;
  over_store_ = too_long;
  std::vector<Said> said;
  for (const std::string& note : *all) {
    base::ByteReader in(note);
    const Saying what = saying_in(in);
    said.push_back({what, std::string(in.bytes(in.left()))});
  }
  return said;
}

bool BoardCall::all_same(const comm::GroupBoard::Notes& hashes) const {
  return std::all_of(hashes.begin(), hashes.end(), [&](const auto& note) {
    base::ByteReader in(note);
    return in.u64() == terms_.hash && in.ok();
  });
}

absl::Status BoardCall::pass() {
  return has_to_meet() ? round(Saying::kOver, "").status() : failure_;
}

absl::StatusOr<std::vector<std::string>> BoardCall::Rounds::exchange(
    int number, const std::string& word, bool built, Deadline deadline) {
  if (!by_store_) {
    const bool fits = word.size() + kHead <= comm::Note::kMostBytes;
    const absl::StatusOr<std::vector<Said>> all =
        call_.round(!fits   ? Saying::kTooLong
                    : built ? Saying::kBuilt
                            : Saying::kWord,
                    fits ? absl::string_view(word) : "");
    if (!all.ok()) return all.status();
    std::vector<std::string> words;
    for (const Said& said : *all)
      by_store_ = by_store_ || said.saying == Saying::kTooLong;
    for (const int rank : members_) {
      const Said& said = (*all)[static_cast<size_t>(rank)];
      if (said.saying == Saying::kFailed)
        return base::make_error(
            call_.located(base::decode_error(said.word).value_or(
                ErrorInfo{.reason = Reason::kAborted,
                          .what = "another rank could not build the group"})));
      words.push_back(said.word);
    }
    if (!by_store_) return words;
  }
  return store_.exchange(number, word, built, deadline);
}

void BoardCall::Rounds::leave(int number, const ErrorInfo& failed,
                              Deadline deadline) {
  if (by_store_ || call_.over_store_)
    return store_.leave(number, failed, deadline);
  give_up(number, failed, deadline);
}

void BoardCall::Rounds::give_up(int number, const ErrorInfo& failed,
                                Deadline deadline) {
  if (by_store_) return store_.give_up(number, failed, deadline);
  if (call_.building_ || call_.has_to_meet())
    call_.round(Saying::kFailed, brief(failed)).IgnoreError();
}

}  // namespace distwrap::group
