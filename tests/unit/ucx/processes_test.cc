// Ranks as processes of one host: results, waits, ends.
#include "messages.h"

#include <gtest/gtest.h>

#include <csignal>
#include <ctime>
#include <thread>

namespace distwrap::ucx_test {
namespace {

using conformance::ProcessRanks;

int64_t ns_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

TEST(UcxProcesses, ExchangeMessagesOfAllSizes) {
  for (const int size : {2, 3}) {
    ProcessRanks ranks({.table = ucx}, size, exchange);
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
  }
}

TEST(UcxProcesses, ARankThatWaitsUsesNoProcessor) {
  ProcessRanks ranks({.table = ucx}, 2, [](Rank& rank) {
    Bytes data(8);
    dw_error error = {};
    // Connects the ranks, and wakes the communicator's thread.
    if (exchange(rank) != 0) return 1;
    if (rank.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return send(rank, 0, data, &error) == DW_DONE ? 0 : 2;
    }
    const int64_t before = ns_of(CLOCK_PROCESS_CPUTIME_ID);
    if (receive(rank, 1, data, &error) != DW_DONE) return 3;
    // The processor time of the whole process.
    return ns_of(CLOCK_PROCESS_CPUTIME_ID) - before < 100'000'000 ? 0 : 4;
  });
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

TEST(UcxProcesses, AMessageOfAnotherSizeIsNamed) {
  for (const size_t sent : {4u, 100u, 100'000u})
    for (const size_t taken : {5u, 99u, 99'999u}) {
      ProcessRanks ranks({.table = ucx}, 2, [&](Rank& rank) {
        dw_error error = {};
        Bytes data(rank.rank == 0 ? sent : taken);
        if (rank.rank == 0) {
          // A message that is read from this memory ends when the reader gives
          // up.
          send(rank, 1, data, &error);
          meet(rank, 0);
          return 0;
        }
        const int32_t code = receive(rank, 0, data, &error);
        rank.api.comm_abort(rank.comm, &error);  // as the host does
        meet(rank, 0);
        return code == DW_FAILED_PRECONDITION &&
                       error.reason == DW_REASON_CALL_MISMATCH &&
                       error.peer == 0
                   ? 0
                   : 1;
      });
      EXPECT_EQ(ranks.wait(0), 0) << sent << " " << taken;
      EXPECT_EQ(ranks.wait(1), 0) << sent << " " << taken;
    }
}

// Data that a sender writes after its failure are never received.
TEST(UcxProcesses, MemoryOfOneThatHasGivenUpIsNotDelivered) {
  for (int i = 0; i < 20; ++i) {
    ProcessRanks ranks({.table = ucx}, 2, [i](Rank& rank) {
      constexpr size_t kBytes = 8'000'000;
      const Bytes right = data_of(0, kBytes, i);
      Bytes data = rank.rank == 0 ? right : Bytes(kBytes, 0xee);
      dw_error error = {};
      // Without the host's board a rank notices only ranks to which it is
      // connected.
      if (exchange(rank) != 0) return 2;
      meet(rank, 0);
      if (rank.rank == 0) {
        std::thread aborting([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(137 * i));
          const dw_error why = {};
          rank.api.comm_abort(rank.comm, &why);
        });
        send(rank, 1, data, &error);
        data.assign(kBytes, 0xdd);
        aborting.join();
        meet(rank, 1);
        return 0;
      }
      const int32_t code = receive(rank, 0, data, &error);
      meet(rank, 1);
      return code != DW_DONE || data == right ? 0 : 1;
    });
    EXPECT_EQ(ranks.wait(0), 0) << i;
    EXPECT_EQ(ranks.wait(1), 0) << i;
  }
}

// Inside a host the board reports the death, as an abort; no rank crashes
// meanwhile.
TEST(UcxProcesses, AKilledSenderLeavesOthersToTheirAbort) {
  for (int i = 0; i < 10; ++i) {
    ProcessRanks ranks({.table = ucx}, 2, [](Rank& rank) {
      Bytes data(4'000'000);
      dw_error error = {};
      int32_t code = DW_DONE;
      ++rank.words[0];
      if (rank.rank == 0) {
        while (code == DW_DONE) code = send(rank, 1, data, &error);
        return 1;
      }
      std::thread aborting([&] {
        while (rank.words[1] == 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const dw_error why = {};
        rank.api.comm_abort(rank.comm, &why);
      });
      while (code == DW_DONE) code = receive(rank, 0, data, &error);
      aborting.join();
      return rank.api.comm_destroy(rank.comm, 0, &error) == DW_OK ? 0 : 2;
    });
    while (ranks.words()[0] < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(900 * i));
    kill(ranks.pid(0), SIGKILL);
    EXPECT_EQ(ranks.wait(0), -1);
    ranks.words()[1] = 1;
    EXPECT_EQ(ranks.wait(1), 0) << i;
  }
}

}  // namespace
}  // namespace distwrap::ucx_test
