// Building a backend's communicator, or a window of it, in rounds over a store.
#ifndef DISTWRAP_SRC_COMM_SETUP_H_
#define DISTWRAP_SRC_COMM_SETUP_H_

#include "comm/backend_instance.h"
#include "distwrap/store.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::comm {

class BackendCommunicator;

// How ranks that build a communicator exchange what their backends give in a
// round.
class SetupRounds {
 public:
  virtual ~SetupRounds() = default;
  // Exchanges one round; returns all ranks' words, by rank. `built`: this
  // rank's backend has no more rounds. The round in which all are built is the
  // last.
  virtual absl::StatusOr<std::vector<std::string>> exchange(
      int round, const std::string& word, bool built, Deadline deadline) = 0;
  // Makes the round fail for all ranks, with this error.
  virtual void give_up(int round, const ErrorInfo& failed,
                       Deadline deadline) = 0;
  // Ends the round when this rank cannot tell whether the others have ended it
  // or still wait in it.
  virtual void leave(int round, const ErrorInfo& failed, Deadline deadline) {
    give_up(round, failed, deadline);
    give_up(round + 1, failed, deadline);
  }
  // The cause behind a failure of the backend.
  virtual absl::Status cause_of(const absl::Status& failure) { return failure; }
};

// The plan of one build: the rank, its peers and the object.
struct SetupPlan {
  std::string group;  // name, for messages
  uint64_t uid = 0;   // equal on all ranks, unique in the job
  uint64_t epoch = 0;
  int rank = 0, size = 1;
  // By rank: the number of its host in the job. Empty: unknown.
  absl::Span<const int32_t> host_of = {};
  Hints hints = {};
  // Prefix of all keys, used by this communicator only.
  std::string keys = "group/";
  // Terms that the ranks must have in common beyond the group: compared in the
  // first round.
  std::string terms = {};
  // Further data that the ranks tell each other in the first round.
  std::string word = {};
  bool watched = false;  // the group has a group page on the board here
  // The communicator from which it is split, on the same backend instance, and
  // the members' ranks there.
  BackendCommunicator* parent = nullptr;
  std::vector<int> parent_ranks = {};
  bool all_of_parent = false;  // all ranks of it build communicators
  // The operation's name in messages.
  std::string op = "init";
  std::string what = "group";
};

// Rounds over a store, under the keys of the plan. Both outlive this object.
class StoreRounds final : public SetupRounds {
 public:
  StoreRounds(Store& store, const SetupPlan& plan)
      : store_(store), plan_(plan) {}
  absl::StatusOr<std::vector<std::string>> exchange(int round,
                                                    const std::string& word,
                                                    bool built,
                                                    Deadline deadline) override;
  void give_up(int round, const ErrorInfo& failed, Deadline deadline) override;
  absl::Status cause_of(const absl::Status& failure) override;

 private:
  Store& store_;
  const SetupPlan& plan_;
};

struct Built {
  dw_comm* comm = nullptr;
  dw_window* window = nullptr;
  bool all_watched = false;        // SetupPlan::watched is set on all ranks
  std::vector<std::string> words;  // SetupPlan::word, by rank

  bool done() const { return comm != nullptr || window != nullptr; }
};

// Runs the backend's rounds until the backend is done: each blob of the backend
// is exchanged over a store, under keys of the group, and the blobs of all
// ranks are handed back. A rank whose backend fails tells the others, so that
// all fail at once. Ranks with different terms fail with kCallMismatch. Ends by
// the deadline; kTimedOut then names the missing ranks. Only one thread at a
// time is in the backend.
absl::StatusOr<Built> build_communicator(BackendInstance& backend,
                                         SetupRounds& rounds,
                                         const SetupPlan& plan,
                                         Deadline deadline);
absl::StatusOr<dw_comm*> build_communicator(BackendInstance& backend,
                                            Store& store, const SetupPlan& plan,
                                            Deadline deadline);

// This rank's part of a window.
struct WindowMemory {
  dw_buf memory = {};
  uint64_t signals = 0;
};
// Builds a window of `owner`, which is on `backend`.
absl::StatusOr<Built> build_window(BackendInstance& backend,
                                   BackendCommunicator& owner,
                                   SetupRounds& rounds, const SetupPlan& plan,
                                   const WindowMemory& part, Deadline deadline);

// Destroys what was built and has no owner.
void discard(BackendInstance& backend, const Built& built);

// For a rank that cannot begin: the others learn why in their first round.
void refuse_communicator(SetupRounds& rounds, const SetupPlan& plan,
                         const absl::Status& why, Deadline deadline);
void refuse_communicator(Store& store, const SetupPlan& plan,
                         const absl::Status& why, Deadline deadline);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_SETUP_H_
