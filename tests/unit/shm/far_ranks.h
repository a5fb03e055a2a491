// Ranks that take each other for far, wherever they run.
#ifndef DISTWRAP_TESTS_UNIT_SHM_FAR_RANKS_H_
#define DISTWRAP_TESTS_UNIT_SHM_FAR_RANKS_H_

#include "backend.h"
#include "team.h"

#include <gtest/gtest.h>

namespace distwrap::shm_test {

// A clock by which what lies between the first and the second of three readings
// takes a microsecond: `Distances` loads a line there.
inline const dw_host_api& clock_of_far_ranks() {
  static const dw_host_api host = [] {
    dw_host_api api = {};
    api.now_ns = [](void*) -> int64_t {
      thread_local int64_t now = 0, readings = 0;
      now += readings++ % 3 == 1 ? 1000 : 20;
      return now;
    };
    return api;
  }();
  return host;
}

// Before the first operation.
inline void move_apart(const conformance::Member& member) {
  shm_backend::Comm& comm = *shm_backend::of(member.comm);
  comm.distances.attach(clock_of_far_ranks(), comm.rank, comm.room.pulses(),
                        &comm.room.mine().writes_past);
  comm.messages.distances().attach(clock_of_far_ranks(), comm.rank,
                                   comm.room.pulses());
}

inline void expect_apart(const conformance::Member& member) {
  shm_backend::Comm& comm = *shm_backend::of(member.comm);
  EXPECT_TRUE(comm.distances.most_are_far()) << "rank " << member.rank;
  EXPECT_EQ(comm.room.mine().writes_past.load(), 1u);
}

}  // namespace distwrap::shm_test

#endif  // DISTWRAP_TESTS_UNIT_SHM_FAR_RANKS_H_
