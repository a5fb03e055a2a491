// A group on the board: shows this rank's collectives and compares them with
// those of the other members, which the board shows on this host and the
// listeners tell between hosts.
//
// Threads: `publish` and `retract` from one at a time, in the order of the
// numbers; the listener is told on the session's thread.
// Ownership: of its communicator, which closes it before it dies.
#ifndef DISTWRAP_SRC_COMM_BOARD_GROUP_BOARD_H_
#define DISTWRAP_SRC_COMM_BOARD_GROUP_BOARD_H_

#include "comm/board/board.h"
#include "comm/board/in_flight.h"
#include "comm/board/seen_call.h"
#include "comm/board/told_calls.h"
#include "distwrap/abi/types.h"
#include "distwrap/status.h"

#include <absl/strings/string_view.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::comm {

class GroupBoard {
 public:
  struct Stuck;
  // Called at most once, with the group's fault: kCallMismatch with both calls,
  // kPeerLost, or kAborted by the rank on which the group failed. Must not
  // block.
  class Listener {
   public:
    virtual void board_found(ErrorInfo found) = 0;
    // Called once for each operation that has waited longer than the board's
    // patience while ranks are missing. Must not block either.
    virtual void board_waits(Stuck stuck) = 0;
    // Called with a text for `hear` of the members on other hosts. Must not
    // block.
    virtual void board_tells(std::string text) = 0;
    // Called by the news between hosts: such a text has come, for `hear`.
    virtual void board_hears(absl::string_view text) = 0;

   protected:
    ~Listener() = default;
  };
  struct Place {
    std::string group;
    uint64_t uid = 0;  // equal on all members, unique among groups
    int rank = 0;      // in the group
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
    // Whether this rank, of all that wait, is the one that informs the user.
    bool speaks = false;
    // The whole report in one line.
    std::string text;
  };

  // Null when no other member is on this host and no news come from others, or
  // when the board is full.
  static std::unique_ptr<GroupBoard> open(std::shared_ptr<Board> board,
                                          Place place);
  // Sets the listener of later findings; null: none. When this returns, the
  // previous listener is not running and is not called again.
  void tell(Listener* listener);
  ~GroupBoard();
  GroupBoard(const GroupBoard&) = delete;
  GroupBoard& operator=(const GroupBoard&) = delete;

  // Publishes a collective that is about to be given to its backend; `kind` is
  // its kind. If the caller waits (DW_FLAG_CALLER_WAITS), `returned` reports
  // its end, otherwise `began` and `finished` do.
  void publish(uint16_t kind, const dw_op& op, absl::string_view label);
  void returned() { page_->inside.store(0, std::memory_order_release); }
  // May be called by any thread, in any order.
  void began(uint64_t number) { in_flight_.add(number); }
  void finished(uint64_t number) { in_flight_.end(number); }
  // Takes back a call that the backend refused: its number is free again.
  void retract(uint64_t number);
  // The group has failed or was aborted on this rank: the others learn it at
  // their next look. Any thread.
  void break_off() { board_->break_off(place_.uid); }
  // For a call that has failed: the group's fault, as far as it is known by
  // now.
  std::optional<ErrorInfo> ask();
  // For a call whose connections other ranks ended: the rank that gave the
  // group up first.
  std::optional<ErrorInfo> who_gave_up();
  // Whether `ask` or `who_gave_up`, or the news of other hosts, may still tell
  // why the connection of `rank` ended: as far as this rank can see, that rank
  // is still in the group.
  bool may_explain(int rank);
  // Whether the error names a member of this host that is known to be lost.
  bool knows_loss(const ErrorInfo& info);
  // The members that have not come to a collective, or do not run, by rank; of
  // other hosts as far as they have told.
  std::vector<RankSeen> missing(uint64_t number);
  // Adds what the ranks that the error names are doing, as far as it is known.
  void describe_ranks(ErrorInfo* info);
  // Takes what another host has told (Listener::board_tells). Any thread.
  void hear(absl::string_view text);

  // Meetings, in which the members say something to each other: all of them
  // hold the same ones in the same order, and all of them are on this host.
  // One thread at a time.
  using Notes = std::vector<std::string>;  // by rank
  // Called about a meeting that takes long, on the waiting thread.
  class Attendant {
   public:
    // Called every five seconds.
    virtual void waits_for(const std::vector<int>& missing) = 0;
    // Called every millisecond or so: why this rank cannot go on waiting.
    virtual std::optional<ErrorInfo> stops() = 0;
    // Called when the meeting fails, at the deadline or because of `lost`:
    // tells the other ranks the reason. They have it when this returns.
    virtual void gives_up(const std::vector<int>& missing,
                          std::optional<ErrorInfo> lost) = 0;

   protected:
    ~Attendant() = default;
  };
  // Runs one meeting and returns the notes of all members, of at most
  // Note::kMostBytes each. Returns nothing, on all members alike, when one of
  // them has given the meeting up: at its deadline, because a rank was lost or
  // has ended the group, because it stopped waiting, or because it did not want
  // to take part.
  std::optional<Notes> meet(absl::string_view note, Deadline deadline,
                            Attendant& attendant);
  // The number of meetings that were begun.
  uint64_t meetings() const { return meeting_; }
  // Called instead of `meet`: makes the meeting fail for all members, which get
  // the reason beforehand. False when the verdict had already been made.
  bool refuse_meeting();

  // This rank holds no more meetings and has ended the group.
  void enter_close_barrier();
  // Waits until all other members have entered too. False at the deadline.
  bool wait_for_close_barrier(Deadline deadline);

  // Shows that this rank has come to a call, under a number that all members
  // give it; not 0. Any thread.
  void come_to(uint64_t number, int64_t now_ns);
  // When a member came to a call; 0: not known, or another call with the same
  // remainder came after it. Any thread.
  int64_t when_came(int rank, uint64_t number) const;

  // Whether all other members of the group are on this host.
  bool sees_all() const {
    return members_.size() + 1 == place_.global_ranks.size();
  }

 private:
  friend class Board;

  // A member whose calls are compared with those of this rank.
  struct Compared {
    int rank;  // in the group
    // The last call up to which both ranks' calls are known to be equal, and
    // its hash.
    uint64_t agreed = 0, agreed_history = 0;
    // The call at which the hashes differed at the last look.
    uint64_t suspect = 0;
    // The call up to which the counts of this pair agree, and the call in which
    // they differed.
    uint64_t paired = 0, unequal = 0;
    uint64_t reached = 0;  // the last number that was seen
  };
  // A member on this host.
  struct Member : Compared {
    const Board::Neighbour* who;
    int place = -1;    // the place of its group page in its area
    bool met = false;  // whether its group page has been seen
  };
  // A member on another host.
  struct FarMember : Compared {
    FarPage page = {};  // as it was told; null: nothing was
    std::string host = {};
    int64_t process = 0;
    std::vector<ToldCalls::Checkpoint> checkpoints = {};
    // The oldest of them at which the histories differ; 0: none.
    uint64_t differs_at = 0;
  };
  // The history at a call whose entry is overwritten soon.
  struct Checkpoint {
    std::atomic<uint64_t> number{0};  // 0, the history, then the number
    std::atomic<uint64_t> history{0};
  };
  static constexpr uint64_t kCheckpoints = 64, kCheckpointEvery = 256;
  // A consistent copy of an entry.
  struct Seen {
    uint64_t history = 0, balance = 0;
    SeenCall call;  // without its print
    std::string label;
  };

  GroupBoard(std::shared_ptr<Board> board, Place place)
      : board_(std::move(board)), place_(std::move(place)) {}
  // Returns a finding, if there is one to report; each only once.
  std::optional<ErrorInfo> look(int64_t now_ns);
  std::optional<ErrorInfo> look_at_all();
  std::optional<ErrorInfo> look_at(Member& member);
  // Compares the counts of this rank and one member in the calls that both have
  // made, without waiting for other ranks.
  std::optional<ErrorInfo> compare(Compared& member, const GroupPage& theirs);
  std::optional<ErrorInfo> look_at_pair(Compared& member,
                                        const GroupPage& theirs, uint64_t upto);
  // Checks that all ranks together expect what all of them send. Only where all
  // members are on this host.
  std::optional<ErrorInfo> look_at_balance();
  // The balance of all ranks up to a call; empty when one does not show it.
  std::optional<uint64_t> balance_at(uint64_t number);
  // Shows how long this rank has been waiting.
  void look_at_self(int64_t now_ns);
  // The ranks that hold an operation up, reported once for each operation.
  std::optional<Stuck> stuck(int64_t now_ns);
  bool speaks(uint64_t number, int64_t since_ns);
  std::string line_of(const Stuck& stuck) const;
  bool has_come(Member& member, uint64_t number);
  bool is_missing(Member& member, uint64_t number);
  RankSeen seen(Member& member);
  RankSeen seen_self() const;
  void see_ranks(ErrorInfo* info);
  static void see_page(const GroupPage& page, RankSeen* seen);
  // Adds the call in which `member` waits in another group, if it does.
  void see_elsewhere(const Member& member, RankSeen* seen) const;
  void describe(GroupFacts* facts) const;
  // far_calls.cc
  bool has_far_members() const { return !far_.empty(); }
  FarPage page_for(int rank) const;
  std::optional<ErrorInfo> look_at_far();
  void compare_checkpoints(FarMember& member);
  ErrorInfo checkpoint_mismatch(const FarMember& member);
  // The text that the other hosts should hear now, if there is one.
  std::optional<std::string> to_tell(int64_t now_ns);
  bool is_speaker(uint64_t inside) const;
  bool shows_pair_counts(uint64_t number) const;
  ToldCalls told_calls(uint64_t upto, uint64_t inside, int64_t now_ns);
  // Keeps the history at a call that no backend has refused.
  void keep_checkpoint(uint64_t number);
  std::optional<uint64_t> history_at(uint64_t number) const;
  // By how much rarer than in a small job calls are told.
  int64_t scale() const;
  bool is_missing(const FarMember& member, uint64_t number) const;
  RankSeen seen(const FarMember& member) const;
  // meeting.cc
  enum class Verdict : uint64_t { kNone, kAgreed, kFailed };
  void open_meetings(GroupPage* page) const;
  GroupPage* meeting_page(int rank);
  GroupPage* find_page(const Member& member) const;
  void show_note(absl::string_view note);
  bool has_noted(int rank);
  std::vector<int> not_noted();
  std::optional<ErrorInfo> lost_one();
  std::optional<ErrorInfo> left_one();
  Verdict verdict();
  // The verdict that a word says on the present meeting.
  Verdict verdict_in(uint64_t word) const;
  Verdict decide(Verdict verdict);
  std::optional<std::string> read_note(int rank);
  bool wait_for_verdict(Deadline deadline, Attendant& attendant);
  void pass_meeting();
  void end_meetings();
  bool has_met(const Member& member, uint64_t meeting) const;
  GroupPage* page_of(Member& member) const;
  static std::optional<Seen> read(const GroupPage& page, uint64_t number);
  ErrorInfo located(ErrorInfo info) const;
  std::optional<ErrorInfo> look_for_broken();
  ErrorInfo lost(Member& member);
  // Calls differ at `number`, the oldest one that can be compared, and the
  // first that differs is one from `since` on.
  ErrorInfo mismatch(uint64_t number, uint64_t since);
  ErrorInfo pair_mismatch(uint64_t number);
  void name_counts(const GroupPage& a, const GroupPage& b, uint64_t number,
                   std::string* of_a, std::string* of_b) const;
  static void show_label(absl::string_view label, Entry* entry);
  // Shows the counts of a call in which each pair has its own: what it adds to
  // the balance.
  uint64_t show_counts(const dw_op& op);
  static uint64_t oldest_kept(uint64_t newest) {
    return newest >= GroupPage::kEntries ? newest - GroupPage::kEntries + 1 : 1;
  }
  int size() const { return static_cast<int>(place_.global_ranks.size()); }
  // All members that show their calls here, by rank.
  template <class Body>
  void for_each_page(const Body& body);

  const std::shared_ptr<Board> board_;
  const Place place_;
  Listener* listener_ = nullptr;  // guarded by the board's lock
  GroupPage* page_ = nullptr;
  int own_place_ = -1;
  std::vector<Member> members_;  // all members on this host but this rank
  std::vector<FarMember> far_;   // all members on other hosts
  // Nobody needs checkpoints of a group on one host.
  uint64_t checkpoint_mask_ = ~uint64_t{0};
  std::array<Checkpoint, kCheckpoints> checkpoints_;
  // The state that other hosts were told last, the time, and whether one of
  // them waits.
  uint64_t told_last_ = 0, told_inside_ = 0;
  int64_t told_ns_ = 0;
  bool asked_ = false;
  bool told_ = false;
  // The call up to which all counts are known to match, and this rank's hash of
  // it; then the first call whose counts did not match at the last look.
  uint64_t balanced_ = 0, balanced_history_ = 0, unbalanced_ = 0;
  InFlight in_flight_;
  uint64_t meeting_ = 0;                   // number of the last one begun
  std::vector<GroupPage*> meeting_pages_;  // by rank, once found
  Notes notes_;
  uint64_t looked_at_ = 0;  // `last` at the last look
  // At the last look, calls were running or new, or a difference was suspected.
  bool busy_ = false;
  uint64_t reported_ = 0;  // the newest that `stuck` has told of
};

[[gnu::always_inline]] inline void GroupBoard::publish(
    uint16_t kind, const dw_op& op, absl::string_view label) {
  constexpr auto kOrder = std::memory_order_release;
  const SeenCall seen = SeenCall::of(kind, op, size());
  const Entry& before = page_->entries[(op.seq - 1) % GroupPage::kEntries];
  // Zero before the first call.
  const uint64_t history = before.history.load(std::memory_order_relaxed);
  uint64_t balance = before.balance.load(std::memory_order_relaxed);
  Entry& entry = page_->entries[op.seq % GroupPage::kEntries];
  entry.number.store(0, std::memory_order_relaxed);
  entry.history.store(mix(history + seen.print), kOrder);
  // The fingerprint of a prepared call covers its counts.
  constexpr uint64_t kOwn = SeenCall::kWithCounts | SeenCall::kPrepared;
  if ((seen.what & kOwn) == SeenCall::kWithCounts) [[unlikely]]
    balance += show_counts(op);
  entry.balance.store(balance, kOrder);
  entry.what.store(seen.what, kOrder);
  entry.count.store(seen.count, kOrder);
  // Mostly there is no label now and was none before.
  if (!label.empty() || entry.label[0].load(std::memory_order_relaxed) != 0)
      [[unlikely]]
    show_label(label, &entry);
  entry.number.store(op.seq, kOrder);
  page_->last.store(op.seq, kOrder);
  if ((op.flags & DW_FLAG_CALLER_WAITS) != 0)
    page_->inside.store(op.seq, kOrder);
  if ((op.seq & checkpoint_mask_) == 0) [[unlikely]]
    keep_checkpoint(op.seq - 1);
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_GROUP_BOARD_H_
