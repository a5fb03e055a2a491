// N ranks as child processes of the test, over a backend.
#ifndef DISTWRAP_TESTS_CONFORMANCE_PROCESS_RANKS_H_
#define DISTWRAP_TESTS_CONFORMANCE_PROCESS_RANKS_H_

#include "distwrap/abi/plugin.h"

#include <atomic>
#include <functional>
#include <sys/types.h>
#include <vector>

namespace distwrap::conformance {

struct Rank {
  const dw_backend_api& api;
  dw_backend* backend;
  dw_comm* comm;
  int rank, size;
  // Shared with the test and the other ranks; zero at first.
  std::atomic<int>* words;
  // Every rank calls it. NULL: no window could be made.
  std::function<dw_window*(const dw_buf& memory, uint64_t signals)> make_window;
};

// The way in which ranks get their communicator.
struct ProcessPlan {
  const dw_backend_api& (*table)();
  // Runs before, in the child; false: the child ends with 98.
  std::function<bool(int rank)> prepare = {};
  // The hints of a rank for `open`; the memory behind them has to stay.
  std::function<std::vector<dw_hint>(int rank)> hints = {};
  bool own_hosts = false;  // each of up to four ranks is on a host of its own
};

// Every child builds a communicator and runs `body`, whose result is its exit
// status; 99 without a communicator.
class ProcessRanks {
 public:
  static constexpr int kWords = 16;
  ProcessRanks(const ProcessPlan& plan, int size,
               const std::function<int(Rank&)>& body);
  ~ProcessRanks();
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;

  std::atomic<int>* words() const;
  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }
  // The exit status; -1 for a child that was killed by a signal.
  int wait(int rank);

 private:
  struct Shared;
  Shared* shared_;
  std::vector<pid_t> pids_;
};

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_PROCESS_RANKS_H_
