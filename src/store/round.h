// The gathering of all ranks for one session, before they exchange anything.
//
// A store sees round after round: a program may start session after session. A
// round ends once: complete, or because a rank gave up; all agree on which, by
// the counter of rounds. A rank that failed and tries again comes into the
// round that is open then, so no rank can fall out of step with the rest.
//
// Threads: each rank calls from one at a time. Ownership: borrows the store.
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

// What a rank says of itself.
struct RoundMember {
  std::string job = {};  // in front of all keys
  int rank = 0, size = 1;
  // What all ranks must have in common: "distwrap 0.1, world size 4".
  std::string terms = {};
};

class Round {
 public:
  // Takes the rank's place. Errors: kRefused when another process that lives
  // has it, or when the others gave up waiting after this process had started
  // (once: its next try is a new attempt).
  static absl::StatusOr<Round> enter(const std::shared_ptr<Store>& store,
                                     const RoundMember& member,
                                     Deadline deadline);
  // Compares the terms with those of the rank that came first. Errors:
  // kCallMismatch with both, `ranks` being that rank.
  absl::Status agree(Deadline deadline);
  // After agree: how many ranks the one that came first waits for.
  int first_size() const { return first_size_; }

  int64_t number() const { return number_; }
  // Of this round and no other.
  std::string key(absl::string_view what) const;

  // All ranks are in: who comes from now on is in the next. Errors: kRefused
  // when one of the others had given up before.
  absl::Status close(Deadline deadline);
  // Ends the round, and tells ranks that come later that it was too late.
  // False when another rank had found it complete: then it is.
  bool give_up(absl::string_view why, Deadline deadline);
  // Lets go of the rank.
  void leave(Deadline deadline);

 private:
  // The counter of rounds.
  struct Count {
    int64_t open = 1;       // the round that ranks come into
    int64_t complete = 0;   // the last that was complete
    int64_t given_up = -1;  // when the one before the open one was
    std::string why = {};   // given up
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
  Count count_;  // as it was read last
  int64_t number_ = 0;
  std::string token_;         // of this try
  bool came_before_ = false;  // another try of this process, or a late one
  bool closed_ = false;
  int first_size_ = 0;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_ROUND_H_
