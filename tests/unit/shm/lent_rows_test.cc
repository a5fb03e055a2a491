// Rows in memory that the backend has allocated: they are written to their
// places, and added up, without passing the staging; and what happens when a
// rank gives up or dies meanwhile.
#include "distwrap/abi/note.h"
#include "host.h"
#include "process_ranks.h"
#include "row_exchanges.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <random>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace distwrap::shm_test {
namespace {

// More than the cells of all ranks.
constexpr size_t kSomeStaging = 16 << 10;

// Runs an exchange; null, or what went wrong. `lent`: no row may be staged.
template <class Exchange>
const char* run(const Peer& peer, Exchange& exchange, uint64_t seq, bool lent) {
  const size_t before = peer.shm().stage.next;
  const dw_op op = exchange.op(seq);
  dw_error error = {};
  if (peer.api.submit(peer.comm, &op, nullptr, &error) != DW_DONE) {
    fprintf(stderr, "rank %d, call %d: %s\n", peer.rank, static_cast<int>(seq),
            error.text);
    return "refused";
  }
  const size_t after = peer.shm().stage.next;
  if (lent && seq > 1 && after >= before && after - before > kSomeStaging)
    return "staged";
  return exchange.wrong();
}

// Memory of some ranks is the backend's. In the first calls lent rows are
// tried, then staged ones, and then whatever was faster.
const char* exchange_all(const Peer& peer) {
  uint64_t seq = 0;
  for (int turn = 0; turn < 3; ++turn)
    for (int mix = 0; mix < 5; ++mix) {
      const bool in = mix == 0 || mix % 3 == peer.rank,
                 out = mix == 0 || (mix + peer.rank) % 2 == 0;
      Dispatch dispatch(peer, in, out, mix % 2 == 1);
      const bool tries = ++seq <= 8;
      if (const char* wrong = run(peer, dispatch, seq, tries && mix == 0))
        return wrong;
      const auto travel = static_cast<Travel>((mix + turn) % 3);
      Combine combine(peer, in, travel);
      if (const char* wrong = run(peer, combine, ++seq, tries && mix == 0))
        return wrong;
    }
  return nullptr;
}

TEST(LentRows, OfSomeThreadsAndNotOfOthers) {
  for (const int size : {2, 3, 5})
    run_threads(size, [](conformance::Member& member) {
      EXPECT_STREQ(exchange_all(peer_of(member)), nullptr)
          << "rank " << member.rank << " of " << member.size;
    });
}

TEST(LentRows, OfSomeProcessesAndNotOfOthers) {
  for (const int size : {2, 3}) {
    ProcessRanks ranks(size, [](Rank& rank) {
      const char* const wrong = exchange_all(peer_of(rank));
      if (wrong != nullptr)
        fprintf(stderr, "rank %d of %d: %s\n", rank.rank, rank.size, wrong);
      rank.words[0].fetch_add(1);
      while (rank.words[0].load() < rank.size) sched_yield();
      return wrong == nullptr ? 0 : 1;
    });
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(ranks.wait(rank), 0) << rank << " of " << size;
  }
}

// An output that is smaller than a row is not lent.
TEST(LentRows, WithoutPlacesNeedNoMemory) {
  run_threads(2, [](conformance::Member& member) {
    const Peer peer = peer_of(member);
    Dispatch dispatch(peer, false, true, false, true);
    EXPECT_STREQ(run(peer, dispatch, 1, false), nullptr);
  });
}

// Each of these ways alone, in calls that try it.
TEST(LentRows, DoNotPassTheStaging) {
  for (const int size : {2, 3})
    for (int what = 0; what < 5; ++what)
      run_threads(size, [what](conformance::Member& member) {
        const Peer peer = peer_of(member);
        for (uint64_t seq = 1; seq <= 8; ++seq) {
          const char* wrong = nullptr;
          if (what < 2) {
            Dispatch dispatch(peer, false, true, what == 1);
            wrong = run(peer, dispatch, seq, true);
          } else {
            Combine combine(peer, true, static_cast<Travel>(what - 2));
            wrong = run(peer, combine, seq, true);
          }
          ASSERT_STREQ(wrong, nullptr) << what << ", call " << seq;
        }
      });
}

// Rows are staged where that has been faster, after tries of both ways.
TEST(LentRows, GoTheFasterWay) {
  run_threads(2, [](conformance::Member& member) {
    const Peer peer = peer_of(member);
    shm_backend::Pair& pair =
        peer.shm().pairs[static_cast<size_t>(1 - member.rank)];
    for (uint64_t seq = 1; seq <= 40; ++seq) {
      Dispatch dispatch(peer, false, true, false);
      const bool lent = seq <= 8 || seq > 28;
      const dw_op op = dispatch.op(seq);
      const auto bytes = static_cast<size_t>(op.out.counts[1 - member.rank]);
      for (int i = 0; i < 200 && seq == 17; ++i)
        pair.takes_rows.took(bytes, true, 1'000'000'000);
      if (seq == 29) pair.takes_rows.took(bytes, true, 1);
      ASSERT_STREQ(run(peer, dispatch, seq, false), nullptr);
      EXPECT_EQ(pair.rows_come == shm_backend::RowWay::kWritten, lent)
          << "call " << seq;
    }
  });
}

// ---- failures ----

// Rank 0 lends its output, gives up and uses its memory again; then rank 1
// comes, and writes nothing there.
TEST(LentRows, AreNotWrittenToARankThatGaveUp) {
  ProcessRanks ranks(2, [](Rank& rank) {
    const Peer peer = peer_of(rank);
    Dispatch dispatch(peer, false, true, false);
    if (run(peer, dispatch, 1, true) != nullptr) return 1;
    while (rank.rank == 1 && rank.words[0].load() == 0) sched_yield();
    dw_op op = dispatch.op(2);
    if (rank.rank == 0) op.timeout_ns = 20'000'000;
    dw_error error = {};
    const int32_t code = peer.api.submit(peer.comm, &op, nullptr, &error);
    if (rank.rank == 0) {
      std::fill_n(dispatch.out().data(), dispatch.out().size(), 50.0f);
      rank.words[0].store(1);
      while (rank.words[1].load() == 0) sched_yield();
      if (code != DW_DEADLINE_EXCEEDED) return 2;
      return dispatch.out().all_are(50) ? 0 : 3;
    }
    rank.words[1].store(1);
    return code == DW_UNAVAILABLE && error.reason == DW_REASON_PEER_LOST &&
                   error.peer == 0
               ? 0
               : 4;
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

// Rank 0 lends rows that others add up, gives up and uses its memory again: the
// other one does not take what it finds there for rows.
TEST(LentRows, OfARankThatGaveUpAreNotAddedUp) {
  ProcessRanks ranks(2, [](Rank& rank) {
    const Peer peer = peer_of(rank);
    Combine combine(peer, true, Travel::kSums);
    if (run(peer, combine, 1, true) != nullptr) return 1;
    while (rank.rank == 1 && rank.words[0].load() == 0) sched_yield();
    dw_op op = combine.op(2);
    if (rank.rank == 0) op.timeout_ns = 20'000'000;
    dw_error error = {};
    const int32_t code = peer.api.submit(peer.comm, &op, nullptr, &error);
    if (rank.rank == 0) {
      std::fill_n(combine.y().data(), combine.y().size(), 50.0f);
      rank.words[0].store(1);
      while (rank.words[1].load() == 0) sched_yield();
      return code == DW_DEADLINE_EXCEEDED ? 0 : 2;
    }
    rank.words[1].store(1);
    return code == DW_UNAVAILABLE && error.reason == DW_REASON_PEER_LOST &&
                   error.peer == 0
               ? 0
               : 4;
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

// A rank is killed, at some moment of the calls: the other one names it, and
// its own memory can be released and allocated again.
TEST(LentRows, OfARankThatIsKilled) {
  for (const bool dispatches : {true, false})
    for (int moment = 0; moment < 6; ++moment) {
      ProcessRanks ranks(2, [dispatches](Rank& rank) {
        const Peer peer = peer_of(rank);
        Dispatch dispatch(peer, true, true, false);
        Combine combine(peer, true, Travel::kSums);
        dw_error error = {};
        for (uint64_t seq = 1;; ++seq) {
          const dw_op op = dispatches ? dispatch.op(seq) : combine.op(seq);
          const int32_t code = peer.api.submit(peer.comm, &op, nullptr, &error);
          rank.words[0].store(1);
          if (code == DW_DONE) continue;
          if (code != DW_UNAVAILABLE || error.reason != DW_REASON_PEER_LOST ||
              error.peer != 1)
            return 2;
          break;
        }
        peer.api.comm_abort(peer.comm, &error);
        if (dispatch.out().release() != DW_OK || combine.y().release() != DW_OK)
          return 3;
        const Numbers again(peer, true, 1000);
        return again.all_are(kUntouched) ? 0 : 4;
      });
      while (ranks.words()[0].load() == 0) sched_yield();
      const int64_t until = conformance::now_ns() + int64_t{71'000} * moment;
      while (conformance::now_ns() < until) sched_yield();
      kill(ranks.pid(1), SIGKILL);
      EXPECT_EQ(ranks.wait(1), -1);
      EXPECT_EQ(ranks.wait(0), 0) << moment;
    }
}

// Memory that was released before the operation is its error. (Rows of a rank
// for itself would bring the memory back: what is touched is there again.)
TEST(LentRows, ReleasedBeforeTheyAreNamedAreAnError) {
  ProcessRanks ranks(2, [](Rank& rank) {
    const Peer peer = peer_of(rank);
    Dispatch dispatch(peer, false, rank.rank == 1, false);
    if (rank.rank == 1 && dispatch.out().release() != DW_OK) return 1;
    const dw_op op = dispatch.op(1, false);
    dw_error error = {};
    const int32_t code = peer.api.submit(peer.comm, &op, nullptr, &error);
    peer.api.comm_abort(peer.comm, &error);
    if (code <= DW_OK) return 3;
    const bool told = std::string(error.text).find("released before the end") !=
                      std::string::npos;
    return rank.rank == 1 || (error.peer == 1 && told) ? 0 : 4;
  });
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

// Somebody writes nonsense into the list of a rank: exchanges may fail or give
// wrong results, but they end, and touch no byte beside their outputs.
void suffer(const Peer& peer, uint64_t seed, bool dispatches) {
  std::mt19937_64 random(seed);
  std::atomic<bool> over = false;
  std::thread vandal;
  for (uint64_t seq = 1; seq <= 8; ++seq) {
    Numbers guarded(peer, true, 2 * size_t{kRows} * kWidth * 6);
    Dispatch dispatch(peer, true, true, false);
    Combine combine(peer, true, Travel::kSums);
    dw_op op = dispatches ? dispatch.op(seq) : combine.op(seq);
    op.timeout_ns = 300'000'000;
    dw_error error = {};
    const int32_t code = peer.api.submit(peer.comm, &op, nullptr, &error);
    EXPECT_TRUE(guarded.all_are(kUntouched)) << "wrote outside of its outputs";
    if (!vandal.joinable() && peer.rank == 0)
      vandal = std::thread([&, lists = peer.shm().row_lists.data()] {
        while (!over) {
          const uint64_t words[] = {0, 1, ~0ull, random(), random() % 256};
          auto* const word = reinterpret_cast<std::atomic<uint64_t>*>(
              lists + random() % 512 / 8 * 8);
          word->store(words[random() % std::size(words)],
                      std::memory_order_relaxed);
        }
      });
    if (code == DW_DONE) continue;
    EXPECT_GT(code, DW_OK);
    EXPECT_NE(error.text[0], '\0') << "an error without a name";
    peer.api.comm_abort(peer.comm, &error);
    break;
  }
  over = true;
  if (vandal.joinable()) vandal.join();
}

TEST(LentRows, OfADamagedListTouchNothingElse) {
  if (DW_SANITIZER == DW_SANITIZER_THREAD)
    GTEST_SKIP() << "the damage is a race by design";
  for (uint64_t seed = 1; seed <= 12; ++seed)
    run_threads(2, [seed](conformance::Member& member) {
      suffer(peer_of(member), seed, seed % 2 == 0);
      member.meeting.meet();
    });
}

}  // namespace
}  // namespace distwrap::shm_test
