#include "wait.h"

#include "backend.h"
#include "sdk/fail.h"

#include <algorithm>
#include <cstdio>
#include <sched.h>

namespace shm_backend {
namespace {

bool look(Condition& condition, int times) {
  for (int i = 0; i < times; ++i) {
    if (condition.holds()) return true;
    pause();
  }
  return false;
}

int32_t fail_lost(dw_error* error, int rank, const char* what) {
  char text[160];
  std::snprintf(text, sizeof text, "shm: rank %d %s", rank, what);
  return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, rank, 0, text);
}

int32_t fail_late(const Comm* comm, Condition& condition, dw_error* error) {
  char text[160];
  int peer = -1;
  for (int rank = 0; rank < comm->size && peer < 0; ++rank)
    if (rank != comm->rank && condition.awaits(rank)) peer = rank;
  if (peer >= 0)
    std::snprintf(text, sizeof text,
                  "shm: rank %d has not come to this operation in time", peer);
  else
    std::snprintf(text, sizeof text,
                  "shm: the others did not come to rank %d in time",
                  comm->rank);
  return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, peer, 0,
                 text);
}

// Whether a missing rank may be waiting for this processor. If none is, a yield
// would give the processor to ranks that have to wait too.
bool is_wanted(const Comm& comm, Condition& condition) {
  const int here = sched_getcpu() + 1;
  std::atomic<int32_t>& own = comm.room.mine().processor;
  if (own.load(std::memory_order_relaxed) != here)
    own.store(here, std::memory_order_relaxed);
  for (int rank = 0; rank < comm.size; ++rank) {
    const int there =
        comm.room.area(rank).processor.load(std::memory_order_relaxed);
    if (rank != comm.rank && (there == 0 || there == here) &&
        condition.will_await(rank))
      return true;
  }
  return false;
}

void yield(Comm* comm, int64_t now_ns) {
  sched_yield();
  comm->yielding.took(comm->host->now_ns(comm->host->self) - now_ns);
}

class CommWait final : public dw_hostmem::Wait {
 public:
  CommWait(Comm* comm, Condition& condition)
      : Wait(comm->host, &comm->yielding,
             std::min(comm->looks, dw_hostmem::kLooksPerTurn),
             condition.busy_ns()),
        comm_(comm),
        condition_(condition) {}

 private:
  bool look(int times) override {
    if (shm_backend::look(condition_, times)) return true;
    if (!comm_->messages.has_open()) return false;
    comm_->messages.progress_for_others();
    return condition_.holds();
  }
  int32_t check(dw_error* error) override {
    return comm_->failure.check(error);
  }
  int32_t look_for_lost(dw_error* error) override {
    return shm_backend::look_for_lost(comm_, condition_, error);
  }
  int32_t fail_late(dw_error* error) override {
    return shm_backend::fail_late(comm_, condition_, error);
  }
  bool gives_way() override {
    return comm_->oversubscribed && is_wanted(*comm_, condition_);
  }

  Comm* const comm_;
  Condition& condition_;
};

}  // namespace

int32_t fail_left(int rank, State state, dw_error* error) {
  switch (state) {
    case State::kAborted:
      return fail_lost(error, rank, "has given the group up");
    case State::kMismatch:
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_CALL_MISMATCH,
                     rank, 0,
                     "shm: a rank found that this rank's call, or another's, "
                     "differs from its own");
    case State::kClosed:
      return fail_lost(error, rank, "has closed the group");
    default:
      return fail_lost(error, rank, "has died: its process ended");
  }
}

int32_t wait_slow(Comm* comm, Condition& condition, Limit& limit,
                  dw_error* error) {
  Area& area = comm->room.mine();
  return CommWait(comm, condition)
      .run({area.sleepers, area.bell}, limit, error);
}

// Every call passes here twice between one rank's turn and the next, so the
// other duties of a wait are left out.
bool wait_in_turns(Comm* comm, Condition& condition) {
  constexpr int kTurns = 3;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (is_wanted(*comm, condition)) {
      if (!comm->yielding.pays()) return false;
      yield(comm, comm->host->now_ns(comm->host->self));
    }
    if (look(condition, dw_hostmem::kLooksPerTurn)) return true;
  }
  return false;
}

// A rank that has died comes first: it is why others gave up. A rank that
// closed before its process ended is not lost.
int32_t look_for_lost(const Comm* comm, Condition& condition, dw_error* error) {
  const Room& room = comm->room;
  if (!room.is_open()) return DW_OK;  // alone
  if (room.arena()->watch.lost(room.arena_ranks()) >= 0)
    for (int rank = 0; rank < comm->size; ++rank)
      if (room.has_died(rank) && room.state(rank) == State::kOpen)
        return fail_left(rank, State::kOpen, error);
  for (int rank = 0; rank < comm->size; ++rank) {
    if (rank == comm->rank) continue;
    const State state = room.state(rank);
    if (state != State::kOpen &&
        (state != State::kClosed || condition.awaits(rank)))
      return fail_left(rank, state, error);
  }
  return DW_OK;
}

}  // namespace shm_backend
