// A call that all ranks of a group make together, over the board of their host:
// that it is the same one, what they say to each other in it, and the rounds in
// which the groups that it makes are built. No store, unless something fails.
//
// The same as in group_call.h, for groups whose ranks are all on one host. A
// meeting of the group carries a word of each rank, so all ranks go on to the
// next one together, those too that build nothing, until the last has ended.
// Threads: one call at a time; another waits for it.
#ifndef DISTWRAP_SRC_GROUP_BOARD_CALL_H_
#define DISTWRAP_SRC_GROUP_BOARD_CALL_H_

#include "base/mutex.h"
#include "comm/board/lane.h"
#include "comm/setup.h"
#include "group/group_call.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::group {

class BoardCall final : private comm::Lane::Attendant {
 public:
  // Null when the group cannot meet on the board: the same on all its ranks.
  static std::unique_ptr<BoardCall> begin(GroupState& group, CallTerms terms,
                                          Deadline deadline);
  // Sees the call to its end: a rank that builds nothing takes part in the
  // others' rounds.
  ~BoardCall();
  BoardCall(const BoardCall&) = delete;
  BoardCall& operator=(const BoardCall&) = delete;

  // As meet_for_call and gather_for_call; a word of `kMostWord` bytes at most.
  static constexpr size_t kMostWord = 128;
  absl::StatusOr<std::vector<std::string>> meet(absl::string_view word);
  // In place of it.
  void refuse(const ErrorInfo& why);

  // In place of `meet` for a call whose ranks all know what they build: they
  // meet in the first of the rounds, or in `pass`. Where that fails, `failure`
  // says why: nothing was built, by nobody.
  void meet_in_rounds() { in_rounds_ = true; }
  bool meets_in_rounds() const { return in_rounds_; }
  const absl::Status& failure() const { return failure_; }
  // Of a rank that builds nothing.
  absl::Status pass();
  // Of the call, equal on all its ranks, and of no other call of the group.
  uint64_t number() const { return number_; }

  // Rounds between `members`, ranks of the group, of whom the caller is one;
  // `store` serves from the round on whose words are too long for the board.
  class Rounds final : public comm::SetupRounds {
   public:
    Rounds(BoardCall& call, std::vector<int> members, comm::SetupRounds& store)
        : call_(call), members_(std::move(members)), store_(store) {}
    absl::StatusOr<std::vector<std::string>> exchange(
        int round, const std::string& word, bool built,
        Deadline deadline) override;
    void give_up(int round, const ErrorInfo& failed,
                 Deadline deadline) override;
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
  // What a rank's note in a round says.
  enum class Saying : uint8_t { kWord, kBuilt, kFailed, kOver, kTooLong };
  struct Said {
    Saying saying;
    std::string word;
  };

  BoardCall(GroupState& group, std::shared_ptr<comm::Lane> lane,
            CallTerms terms, Deadline deadline);
  absl::StatusOr<comm::Lane::Notes> notes(absl::string_view note);
  absl::StatusOr<std::vector<Said>> round(Saying saying,
                                          absl::string_view word);
  // Whether the first round is to come, in which the ranks meet.
  bool has_to_meet() const { return in_rounds_ && !met_ && failure_.ok(); }
  bool all_same(const comm::Lane::Notes& hashes) const;
  absl::Status different(const comm::Lane::Notes& hashes);
  ErrorInfo located(ErrorInfo info) const;
  ErrorInfo late(const char* what) const;

  // Lane::Attendant
  void waits_for(const std::vector<int>& missing) override;
  void gives_up(const std::vector<int>& missing,
                std::optional<ErrorInfo> lost) override;
  std::string key() const;  // of why the meeting failed

  GroupState& group_;
  const std::shared_ptr<comm::Lane> lane_;
  const CallTerms terms_;
  const Deadline deadline_;
  const absl::Duration limit_;  // as it was asked for
  const int64_t started_ns_ = Deadline::now_ns();
  base::MutexLock lock_;
  const uint64_t number_;
  bool in_rounds_ = false, met_ = false;
  std::optional<ErrorInfo> gave_up_;  // why this rank did
  bool building_ = false;             // the ranks have agreed and build groups
  absl::Status failure_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_BOARD_CALL_H_
