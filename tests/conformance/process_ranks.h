// N ranks as processes over a backend, children of the test.
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
  // Shared with the test and the other ranks, zero at first.
  std::atomic<int>* words;
  // Every rank calls it; NULL: there is no window.
  std::function<dw_window*(const dw_buf& memory, uint64_t signals)> make_window;
};

// How the ranks get their communicator.
struct ProcessPlan {
  const dw_backend_api& (*table)();
  // Before it, in the child; false: it ends with 98.
  std::function<bool(int rank)> prepare = {};
  // Hints of a rank, for `open`; what they point to has to stay.
  std::function<std::vector<dw_hint>(int rank)> hints = {};
};

// Every child builds a communicator and runs `body`, whose result is its exit
// status; 99 when there is no communicator.
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
  // The exit status, -1 for a child that a signal ended.
  int wait(int rank);

 private:
  struct Shared;
  Shared* shared_;
  std::vector<pid_t> pids_;
};

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_PROCESS_RANKS_H_
