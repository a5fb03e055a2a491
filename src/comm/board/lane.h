// A group on the board: shows this rank's collectives and compares them with
// those of the members on the same host.
//
// Threads: `publish` and `retract` from one at a time, in the order of the
// numbers; the listener is told on the session's thread.
// Ownership: of its communicator, which closes it before it dies.
#ifndef DISTWRAP_SRC_COMM_BOARD_LANE_H_
#define DISTWRAP_SRC_COMM_BOARD_LANE_H_

#include "comm/board/board.h"
#include "comm/board/in_flight.h"
#include "comm/board/seen_call.h"
#include "distwrap/abi/types.h"
#include "distwrap/status.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::comm {

class Lane {
 public:
  struct Stuck;
  // Hears once, at most, what is wrong with the group: kCallMismatch with both
  // calls, kPeerLost, or kAborted by a rank on which it has failed. Does not
  // block.
  class Listener {
   public:
    virtual void board_found(ErrorInfo found) = 0;
    // An operation has waited for longer than the board's patience, and ranks
    // are missing. Once for each. Does not block either.
    virtual void board_waits(Stuck stuck) = 0;

   protected:
    ~Listener() = default;
  };
  struct Place {
    std::string group;
    uint64_t uid = 0;  // the same on all members, of no other group
    int rank = 0;      // of the group
    std::vector<int> global_ranks;
  };
  // An operation in which this rank waits for others.
  struct Stuck {
    std::string op;    // "all_reduce"
    std::string call;  // "all_reduce f32 x 1024 sum"
    uint64_t seq = 0;
    std::string label;
    absl::Duration waited;
    std::vector<RankSeen> missing;
    // Whether it falls to this rank to tell people: to one of those that wait.
    bool speaks = false;
    // All of it, in one line.
    std::string text;
  };

  // Null when no other member is on this host, or the board is full.
  static std::unique_ptr<Lane> open(std::shared_ptr<Board> board, Place place);
  // From now on what is found is told to this one; null: to nobody. The one
  // before is not being told anything afterwards.
  void tell(Listener* listener);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // A collective about to be handed to its backend; `kind` is its. Of one whose
  // caller waits (DW_FLAG_CALLER_WAITS) the end is `returned`; of others
  // `flies` and `landed`.
  void publish(uint16_t kind, const dw_op& op, absl::string_view label);
  void returned() { page_->inside.store(0, std::memory_order_release); }
  // From any threads, in any order.
  void flies(uint64_t number) { in_flight_.add(number); }
  void landed(uint64_t number) { in_flight_.end(number); }
  // Its backend has refused it: the number is free again.
  void retract(uint64_t number);
  // The group has failed or was aborted on this rank: the others learn it at
  // their next look. Any thread.
  void break_off() { board_->break_off(place_.uid); }
  // What is wrong as far as can be seen now, for a call that has failed.
  std::optional<ErrorInfo> ask();
  // Who has given the group up, for a call whose connections others have ended.
  std::optional<ErrorInfo> who_gave_up();
  // Whether `ask` or `who_gave_up` may still come to know why that rank's
  // connection has ended: it is in the group, as far as can be seen.
  bool may_explain(int rank);
  // The members of this host that have not come to a collective, or do not
  // run, by rank.
  std::vector<RankSeen> missing(uint64_t number);
  // Adds what those are doing that the error is about, of this host.
  void name_culprits(ErrorInfo* info);

  // Meetings, in which the members say something to each other: all of them
  // hold the same ones in the same order, and all of them are on this host.
  // One thread at a time.
  using Notes = std::vector<std::string>;  // by rank
  // Hears of a meeting that takes long; on the thread that waits.
  class Attendant {
   public:
    // Every five seconds.
    virtual void waits_for(const std::vector<int>& missing) = 0;
    // It is to fail, at the deadline or because of `lost`: says why to the
    // others, who hear of it when this returns.
    virtual void gives_up(const std::vector<int>& missing,
                          std::optional<ErrorInfo> lost) = 0;

   protected:
    ~Attendant() = default;
  };
  // Everybody's notes, of Note::kMostBytes at most; or nothing, for all members
  // alike, when one of them has given it up, at its deadline or because another
  // was lost or has ended the group, or did not want to take part.
  std::optional<Notes> meet(absl::string_view note, Deadline deadline,
                            Attendant& attendant);
  // How many have been begun.
  uint64_t meetings() const { return meeting_; }
  // In place of `meet`: it fails for all, explained before. False when it had
  // been decided otherwise.
  bool refuse_meeting();

  // This rank holds no more meetings and has ended the group.
  void say_goodbye();
  // Whether all others have, by the deadline.
  bool wait_for_goodbyes(Deadline deadline);

  // Whether these are all other members.
  bool sees_all() const {
    return members_.size() + 1 == place_.global_ranks.size();
  }

 private:
  friend class Board;

  struct Member {
    int rank;  // of the group
    const Board::Neighbour* who;
    int place = -1;  // of its lane in its area
    // What is known to be the same.
    uint64_t agreed = 0, agreed_history = 0;
    // The number at which its history differed when last looked at.
    uint64_t suspect = 0;
    // Up to which call their counts agree, and in which they did not.
    uint64_t paired = 0, unequal = 0;
    uint64_t reached = 0;  // the last number that was seen
    bool met = false;      // its lane has been there
  };
  // An entry, read whole.
  struct Seen {
    uint64_t history = 0, balance = 0;
    SeenCall call;  // without its print
    std::string label;
  };

  Lane(std::shared_ptr<Board> board, Place place)
      : board_(std::move(board)), place_(std::move(place)) {}
  // What has to be told, once.
  std::optional<ErrorInfo> look(int64_t now_ns);
  std::optional<ErrorInfo> look_at_all();
  std::optional<ErrorInfo> look_at(Member& member);
  // Whether this rank and that one agree on their counts in the calls of both,
  // whoever else has come.
  std::optional<ErrorInfo> look_at_pair(Member& member, const LanePage& theirs,
                                        uint64_t upto);
  // Whether what all ranks send is what all of them expect. Nothing where not
  // all of them are on this host.
  std::optional<ErrorInfo> look_at_balance();
  // Of all ranks up to a call; nothing when one of them does not show it.
  std::optional<uint64_t> balance_at(uint64_t number);
  // Shows how long this rank has been waiting.
  void look_at_self(int64_t now_ns);
  // Who has to be told of, once for each operation.
  std::optional<Stuck> stuck(int64_t now_ns);
  bool speaks(uint64_t number, int64_t since_ns);
  std::string line_of(const Stuck& stuck) const;
  bool has_come(Member& member, uint64_t number);
  bool is_missing(Member& member, uint64_t number);
  RankSeen seen(Member& member);
  RankSeen seen_self() const;
  void see_culprits(ErrorInfo* info);
  static void see_page(const LanePage& page, RankSeen* seen);
  // What it does in another group, if it waits there.
  void see_elsewhere(const Member& member, RankSeen* seen) const;
  void describe(GroupFacts* facts) const;
  // meeting.cc
  enum class Verdict : uint64_t { kNone, kAgreed, kFailed };
  void open_meetings(LanePage* page) const;
  LanePage* meeting_page(int rank);
  LanePage* find_page(const Member& member) const;
  void show_note(absl::string_view note);
  bool has_noted(int rank);
  std::vector<int> not_noted();
  std::optional<ErrorInfo> lost_one();
  std::optional<ErrorInfo> left_one();
  Verdict verdict();
  Verdict decide(Verdict verdict);
  std::optional<std::string> read_note(int rank);
  bool wait_for_verdict(Deadline deadline, Attendant& attendant);
  void pass_meeting();
  void end_meetings();
  bool has_met(const Member& member, uint64_t meeting) const;
  LanePage* page_of(Member& member) const;
  static std::optional<Seen> read(const LanePage& page, uint64_t number);
  ErrorInfo located(ErrorInfo info) const;
  std::optional<ErrorInfo> look_for_broken();
  ErrorInfo lost(Member& member);
  // `exact`: it is the first that differs, not the oldest that is still shown.
  ErrorInfo mismatch(uint64_t number, bool exact);
  ErrorInfo pair_mismatch(uint64_t number);
  void name_counts(const LanePage& a, const LanePage& b, uint64_t number,
                   std::string* of_a, std::string* of_b) const;
  static void show_label(absl::string_view label, Entry* entry);
  // Shows the counts of a call in which each pair has its own: what it adds to
  // the balance.
  uint64_t show_counts(const dw_op& op);
  static uint64_t oldest_kept(uint64_t newest) {
    return newest >= LanePage::kEntries ? newest - LanePage::kEntries + 1 : 1;
  }
  int size() const { return static_cast<int>(place_.global_ranks.size()); }
  // All members that show their calls here, by rank.
  template <class Body>
  void for_each_page(const Body& body);

  const std::shared_ptr<Board> board_;
  const Place place_;
  Listener* listener_ = nullptr;  // guarded by the board's lock
  LanePage* page_ = nullptr;
  int own_place_ = -1;
  std::vector<Member> members_;  // the others, on this host
  bool told_ = false;
  // Up to which call all counts are known to match, and as of which call of
  // this rank's; the first call at which they did not at the last look.
  uint64_t balanced_ = 0, balanced_history_ = 0, unbalanced_ = 0;
  InFlight in_flight_;
  uint64_t meeting_ = 0;                  // number of the last one begun
  std::vector<LanePage*> meeting_pages_;  // by rank, once found
  Notes notes_;
  uint64_t looked_at_ = 0;  // `last` at the last look
  // At the last look: calls were made or wait, or a difference may be one.
  bool busy_ = false;
  uint64_t reported_ = 0;  // the newest that `stuck` has told of
};

[[gnu::always_inline]] inline void Lane::publish(uint16_t kind, const dw_op& op,
                                                 absl::string_view label) {
  constexpr auto kOrder = std::memory_order_release;
  const SeenCall seen = SeenCall::of(kind, op, size());
  const Entry& before = page_->entries[(op.seq - 1) % LanePage::kEntries];
  uint64_t history = 0, balance = 0;
  if (op.seq != 1) [[likely]] {
    history = before.history.load(std::memory_order_relaxed);
    balance = before.balance.load(std::memory_order_relaxed);
  }
  Entry& entry = page_->entries[op.seq % LanePage::kEntries];
  entry.number.store(0, std::memory_order_relaxed);
  entry.history.store(mix(history + seen.print), kOrder);
  if ((seen.what & SeenCall::kWithCounts) != 0) [[unlikely]]
    balance += show_counts(op);
  entry.balance.store(balance, kOrder);
  entry.what.store(seen.what, kOrder);
  entry.count.store(seen.count, kOrder);
  // Mostly there is none, nor was there.
  if (!label.empty() || entry.label[0].load(std::memory_order_relaxed) != 0)
      [[unlikely]]
    show_label(label, &entry);
  entry.number.store(op.seq, kOrder);
  page_->last.store(op.seq, kOrder);
  if ((op.flags & DW_FLAG_CALLER_WAITS) != 0)
    page_->inside.store(op.seq, kOrder);
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_LANE_H_
