// N ranks as processes over the shm backend.
#ifndef DISTWRAP_TESTS_UNIT_SHM_PROCESS_RANKS_H_
#define DISTWRAP_TESTS_UNIT_SHM_PROCESS_RANKS_H_

#include "conformance/linked.h"
#include "conformance/process_ranks.h"
#include "fakes/compose_over.h"
#include "host.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <sched.h>

namespace distwrap::shm_test {

using conformance::Rank;

class ProcessRanks : public conformance::ProcessRanks {
 public:
  ProcessRanks(int size, const std::function<int(Rank&)>& body)
      : conformance::ProcessRanks(
            {.table = fakes::table_of<dw_plugin_query_v1_shm>}, size, body) {}
};

// Rank `victim` of three is killed at some moment of operations that each rank
// makes one after the other; the others say who it was. `make` returns an
// operation of the rank: a function that submits it with a number.
template <class Make>
void expect_killed_is_named(int victim, int moment, const Make& make) {
  constexpr int kSize = 3;
  ProcessRanks ranks(kSize, [&](Rank& rank) {
    const auto submit = make(rank);
    dw_error error = {};
    for (uint64_t seq = 1;; ++seq) {
      const int32_t code = submit(seq, &error);
      if (code == DW_DONE) {
        rank.words[rank.rank].fetch_add(1);
        continue;
      }
      rank.api.comm_abort(rank.comm, &error);
      if (code != DW_UNAVAILABLE || error.reason != DW_REASON_PEER_LOST)
        return 3;
      // Another survivor may have noticed first, and given up.
      return error.peer == victim || error.peer == 3 - victim - rank.rank ? 0
                                                                          : 4;
    }
  });
  while (ranks.words()[0].load() < 3) sched_yield();
  const int64_t until = conformance::now_ns() + int64_t{37'000} * moment;
  while (conformance::now_ns() < until) sched_yield();
  kill(ranks.pid(victim), SIGKILL);
  EXPECT_EQ(ranks.wait(victim), -1);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(ranks.wait(rank), 0)
        << "rank " << rank << ", victim " << victim << ", moment " << moment;
  }
}

}  // namespace distwrap::shm_test

#endif  // DISTWRAP_TESTS_UNIT_SHM_PROCESS_RANKS_H_
