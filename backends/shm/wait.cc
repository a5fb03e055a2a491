#include "wait.h"

#include "backend.h"
#include "sdk/fail.h"

#include <climits>

#include <algorithm>
#include <cstdio>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace shm_backend {
namespace {

// How long to keep the processor, or at least to stay awake.
constexpr int64_t kSpinNs = 2'000;
constexpr int64_t kAwakeNs = 60'000;
// How often to look whether the peers are still there.
constexpr int64_t kLookNs = 1'000'000;
// A wake-up that is missed by a hair is made up for after this.
constexpr int64_t kShortNapNs = 1'000'000;
constexpr int64_t kLongNapNs = 20'000'000;
// Looks before sleeping, after the others can know of it: longer than a
// processor keeps a write to itself.
constexpr int kLastLooks = 200;
constexpr int kLooksPerTurn = 20;

bool look(Condition& condition, int times) {
  for (int i = 0; i < times; ++i) {
    if (condition.holds()) return true;
    pause();
  }
  return false;
}

// Sleeps until the bell rings; whether the condition held before that.
bool nap(Comm* comm, Condition& condition, const Bed& bed, int64_t most_ns) {
  bed.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t bell = bed.bell.load(std::memory_order_seq_cst);
  const bool holds = look(condition, kLastLooks);
  if (!holds && !comm->failure.is_over()) {
    const timespec span = {static_cast<time_t>(most_ns / 1'000'000'000),
                           static_cast<long>(most_ns % 1'000'000'000)};
    syscall(SYS_futex, &bed.bell, FUTEX_WAIT, bell, &span, nullptr, 0);
  }
  bed.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return holds;
}

int32_t fail_lost(dw_error* error, int rank, const char* what) {
  char text[160];
  std::snprintf(text, sizeof text, "shm: rank %d %s", rank, what);
  return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, rank, 0, text);
}

// What the others' processes and states say. First who has died: it is why
// others gave up. Who closed before its process ended is not lost.
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
                  "shm: rank %d waited for the others in vain", comm->rank);
  return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, peer, 0,
                 text);
}

// Whether a rank that is missing may be waiting for this processor. If none is,
// those that it would be given to have to wait as well.
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

int32_t wait_long(Comm* comm, Condition& condition, Limit& limit,
                  const Bed& bed, bool moves_messages, dw_error* error) {
  const dw_host_api& host = *comm->host;
  const int64_t began = host.now_ns(host.self);
  const int64_t end = limit.at(began);
  const int64_t spin_ns = kSpinNs + std::min(condition.busy_ns(), kAwakeNs);
  const int64_t awake_ns = kAwakeNs + condition.busy_ns();
  int64_t next_look = began + kLookNs;
  int64_t nap_ns = kShortNapNs;
  const int looks = std::min(comm->looks, kLooksPerTurn);
  for (;;) {
    if (look(condition, looks)) return DW_OK;
    if (int32_t code = comm->failure.check(error)) return code;
    if (moves_messages && comm->messages.has_open())
      comm->messages.progress_for_others();
    const int64_t now = host.now_ns(host.self);
    if (now >= next_look) {
      next_look = now + kLookNs;
      if (int32_t code = look_for_lost(comm, condition, error))
        return condition.holds() ? int32_t{DW_OK} : code;
    }
    if (end != 0 && now >= end) {
      if (condition.holds()) return DW_OK;
      return fail_late(comm, condition, error);
    }
    if (now - began < spin_ns &&
        (!comm->crowded || !is_wanted(*comm, condition)))
      continue;
    if (now - began < awake_ns && comm->yielding.pays()) {
      yield(comm, now);
      continue;
    }
    const int64_t most = end == 0 ? nap_ns : std::min(nap_ns, end - now);
    if (nap(comm, condition, bed, most)) return DW_OK;
    nap_ns = std::min(nap_ns * 2, kLongNapNs);
    next_look = std::min(next_look, now + nap_ns);
  }
}

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

void say_waits(const Comm& comm) { comm.host->now_ns(comm.host->self); }

int32_t wait_slow(Comm* comm, Condition& condition, Limit& limit,
                  dw_error* error) {
  Area& area = comm->room.mine();
  return wait_long(comm, condition, limit, {area.sleepers, area.bell}, true,
                   error);
}

// All that lies between one rank's turn and the next is on the way of every
// call, twice: so without what a wait has to look after as well.
bool wait_in_turns(Comm* comm, Condition& condition) {
  constexpr int kTurns = 3;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (is_wanted(*comm, condition)) {
      if (!comm->yielding.pays()) return false;
      yield(comm, comm->host->now_ns(comm->host->self));
    }
    if (look(condition, kLooksPerTurn)) return true;
  }
  return false;
}

int32_t wait_apart(Comm* comm, Condition& condition, Limit& limit,
                   const Bed& bed, dw_error* error) {
  return wait_long(comm, condition, limit, bed, false, error);
}

void ring(std::atomic<uint32_t>& bell) {
  bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace shm_backend
