// The gathering of all ranks for one session, before they exchange any data.
//
// A store sees a sequence of rounds, since a program may start one session
// after the other. A round ends once: it is complete, or a rank gave up. All
// ranks agree on the result through the counter of rounds. A rank that failed
// and tries again enters the round that is open then, so ranks cannot get out
// of step.
//
// Threads: each rank calls from one thread at a time. Ownership: borrows the
// store.
//
//   auto round = Round::enter(store, {.rank = 0, .size = 2}, deadline);
//   exchange(*store, round->key("hello"), ...);  // then, as it went,
//   round->close(deadline);  or  round->give_up("rank 3 is missing", deadline);
//   round->leave(deadline);                      // the session ends
#ifndef DISTWRAP_SRC_STORE_ROUND_H_
#define DISTWRAP_SRC_STORE_ROUND_H_

#include "distwrap/deadline.h"
#include "distwrap/store.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <string>

namespace distwrap::store {

// The data with which a rank enters.
struct RoundMember {
  std::string job = {};  // the prefix of all keys
  int rank = 0, size = 1;
  // The values that must be equal on all ranks: "distwrap 0.1, world size 4".
  std::string terms = {};
};

class Round {
 public:
  // Takes the rank's place. Errors: kRefused when another living process has
  // the place, or when the other ranks gave up after this process had started.
  // The second reason applies once: the next call is a new attempt.
  static absl::StatusOr<Round> enter(const std::shared_ptr<Store>& store,
                                     const RoundMember& member,
                                     Deadline deadline);
  // Compares the terms with those of the first rank. Errors: kCallMismatch with
  // both terms; `ranks` names the first rank.
  absl::Status agree(Deadline deadline);
  // The terms in force now, if they are other ones, for an error.
  std::string other_terms(Deadline deadline) const;
  // The number of ranks for which the first rank waits; valid after `agree`.
  int first_size() const { return first_size_; }

  int64_t number() const { return number_; }
  // A key that belongs to this round only.
  std::string key(absl::string_view what) const;

  // All ranks are in; ranks that come from now on enter the next round. Errors:
  // kRefused when another rank had given up before.
  absl::Status close(Deadline deadline);
  // Ends the round and tells ranks that come later that they are too late.
  // False when another rank has completed the round already.
  bool give_up(absl::string_view why, Deadline deadline);
  // Releases the rank's place.
  void leave(Deadline deadline);

 private:
  // The counter of rounds.
  struct Count {
    int64_t open = 1;       // the round that ranks enter
    int64_t complete = 0;   // the last complete round
    int64_t given_up = -1;  // time when the round before `open` was given up
    std::string why = {};   // why it was given up
  };
  static absl::StatusOr<Count> parse(absl::string_view text);
  static std::string text_of(const Count& count);
  static std::string counter_of(const RoundMember& member);
  static absl::StatusOr<Count> read_count(Store& store,
                                          const RoundMember& member,
                                          Deadline deadline);

  Round(std::shared_ptr<Store> store, const RoundMember& member, Count count);
  absl::StatusOr<Count> end_with(const Count& next, Deadline deadline);
  absl::Status check_running(Deadline deadline) const;
  absl::Status take_place(Deadline deadline);
  absl::Status check_in_time(Deadline deadline);
  absl::Status reopen(Deadline deadline);
  absl::Status too_late(const Count& count) const;
  void forget(int64_t number, Deadline deadline) const;
  std::string key_of(int64_t number, absl::string_view what) const;
  std::string rank_key(int64_t number, int rank) const;
  std::string own_terms() const;

  std::shared_ptr<Store> store_;
  RoundMember member_;
  Count count_;  // as last read
  int64_t number_ = 0;
  std::string token_;         // identifies this attempt
  bool came_before_ = false;  // an earlier or late attempt of this process came
                              // before
  bool closed_ = false;
  int first_size_ = 0;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_ROUND_H_
