// A call that all ranks of a group make together over the board of their host:
// the check that it is the same call, the words that ranks exchange in it, and
// the rounds in which new groups are built. The store is used only after a
// failure.
//
// It corresponds to group_call.h, for groups whose ranks are all on one host. A
// meeting of the group carries a word of each rank, so all ranks proceed to the
// next meeting together, until the last round has ended; ranks that build
// nothing take part as well.
// Threads: one call at a time; another call waits for it.
#ifndef DISTWRAP_SRC_GROUP_BOARD_CALL_H_
#define DISTWRAP_SRC_GROUP_BOARD_CALL_H_

#include "base/mutex.h"
#include "comm/board/group_board.h"
#include "comm/setup.h"
#include "group/group_call.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::group {

class BoardCall final : private comm::GroupBoard::Attendant {
 public:
  // Null when the group cannot meet on the board; equal on all its ranks.
  static std::unique_ptr<BoardCall> begin(GroupState& group, CallTerms terms,
                                          Deadline deadline);
  // Takes part in the remaining rounds of the other ranks, if this rank builds
  // nothing itself.
  ~BoardCall();
  BoardCall(const BoardCall&) = delete;
  BoardCall& operator=(const BoardCall&) = delete;

  // Like meet_for_call and gather_for_call; a word has at most `kMostWord`
  // bytes.
  static constexpr size_t kMostWord = 128;
  absl::StatusOr<std::vector<std::string>> meet(absl::string_view word);
  // Replaces `meet` on a rank that refuses the call.
  void refuse(const ErrorInfo& why);

  // Replaces `meet` for a call whose ranks all know what they build: they meet
  // in the first round, or in `pass`. If that meeting fails, `failure` has the
  // error, and no rank has built anything.
  void meet_in_rounds() { in_rounds_ = true; }
  bool meets_in_rounds() const { return in_rounds_; }
  const absl::Status& failure() const { return failure_; }
  // Takes part in the rounds on a rank that builds nothing.
  absl::Status pass();
  // The number of the call: equal on all ranks and unique in the group.
  uint64_t number() const { return number_; }

  // Rounds between `members`, ranks of the group that include the caller.
  // `store` serves from the first round whose words are too long for the board.
  class Rounds final : public comm::SetupRounds {
   public:
    Rounds(BoardCall& call, std::vector<int> members, comm::SetupRounds& store)
        : call_(call), members_(std::move(members)), store_(store) {}
    absl::StatusOr<std::vector<std::string>> exchange(
        int round, const std::string& word, bool built,
        Deadline deadline) override;
    void give_up(int round, const ErrorInfo& failed,
                 Deadline deadline) override;
    void leave(int round, const ErrorInfo& failed, Deadline deadline) override;
    absl::Status cause_of(const absl::Status& failure) override {
      return failure;
    }

   private:
    BoardCall& call_;
    const std::vector<int> members_;
    comm::SetupRounds& store_;
    bool by_store_ = false;
  };

 private:
  // The content of a rank's note in a round.
  enum class Saying : uint8_t { kWord, kBuilt, kFailed, kOver, kTooLong };
  struct Said {
    Saying saying;
    std::string word;
  };

  BoardCall(GroupState& group, std::shared_ptr<comm::GroupBoard> group_board,
            CallTerms terms, Deadline deadline);
  absl::StatusOr<comm::GroupBoard::Notes> notes(absl::string_view note);
  absl::StatusOr<std::vector<Said>> round(Saying saying,
                                          absl::string_view word);
  // Whether the ranks have yet to meet in the first round.
  bool has_to_meet() const { return in_rounds_ && !met_ && failure_.ok(); }
  bool all_same(const comm::GroupBoard::Notes& hashes) const;
  absl::Status different(const comm::GroupBoard::Notes& hashes);
  ErrorInfo located(ErrorInfo info) const;
  ErrorInfo late(const char* what) const;

  // GroupBoard::Attendant
  void waits_for(const std::vector<int>& missing) override;
  std::optional<ErrorInfo> stops() override;
  void gives_up(const std::vector<int>& missing,
                std::optional<ErrorInfo> lost) override;
  std::string key() const;  // key of the reason why the meeting failed

  GroupState& group_;
  const std::shared_ptr<comm::GroupBoard> board_;
  const CallTerms terms_;
  const Deadline deadline_;
  const absl::Duration limit_;  // the time limit that the caller gave
  const int64_t started_ns_ = Deadline::now_ns();
  base::MutexLock lock_;
  const uint64_t aborts_ = group_.aborts();  // when the call began
  const uint64_t number_;
  bool in_rounds_ = false, met_ = false;
  std::optional<ErrorInfo> gave_up_;  // why this rank gave up
  bool building_ = false;             // the ranks have agreed and build groups
  bool over_store_ = false;           // the last round goes on there
  const int exceptions_ = std::uncaught_exceptions();
  absl::Status failure_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_BOARD_CALL_H_
