// N ranks as threads over one backend table, with a communicator.
#ifndef DISTWRAP_TESTS_CONFORMANCE_TEAM_H_
#define DISTWRAP_TESTS_CONFORMANCE_TEAM_H_

#include "distwrap/abi/plugin.h"
#include "findings.h"
#include "host.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace distwrap::conformance {

struct Limits {
  // Limits of waits: far above the time of any operation, and small in tests of
  // the suite in which something never ends.
  std::chrono::milliseconds operation = std::chrono::seconds(20);
  std::chrono::milliseconds body = std::chrono::seconds(100);
  // The sizes of groups over which the sample is spread.
  std::vector<int> sizes = {1};
  uint64_t seed = 1;
  size_t largest = size_t{1} << 20;  // elements
  // Whether it has every operation, and messages of a rank to itself.
  bool complete = false;
  // Whether a receive finds its message by the tag. Otherwise the messages of
  // two ranks arrive in the order in which they are sent, and one that waits
  // holds up what comes after it, except in its own set.
  bool tags = true;
  // The engine writes a message to the buffer of a receive that it knows before
  // anybody can compare the two.
  bool delivers_first = false;
  // Threads that a communicator may add for any number of open works.
  int threads = 1;
  // The bytes that all ranks together have sent; NULL: not counted.
  uint64_t (*bytes_sent)() = nullptr;
};

// The meeting place of a team's ranks, where they exchange the blobs of a setup
// round.
class Meeting {
 public:
  explicit Meeting(int size);
  void meet();
  // The texts of all ranks, in rank order.
  std::vector<std::string> swap(int rank, std::string text);

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  const int size_;
  int here_ = 0;
  uint64_t round_ = 0;
  std::vector<std::string> texts_, swapped_;
};

// One rank, in its own thread.
struct Member {
  const dw_backend_api& api;
  const int rank, size;
  const Limits& limits;
  Meeting& meeting;
  Findings& findings;
  dw_backend* backend = nullptr;
  dw_comm* comm = nullptr;
  dw_comm* second = nullptr;  // for checks that need two communicators
  // Held to change the two communicators, and to read them in other threads.
  mutable std::mutex comms = {};
  uint64_t next_seq = 1;
  dw_trace* trace = nullptr;  // for the calls that make_call makes

  void find(const std::string& what) const {
    findings.add("rank " + std::to_string(rank) + " of " +
                 std::to_string(size) + ": " + what);
  }
  void aborts() const;
  bool opens();
  void closes();
};

// Runs the rounds of a communicator; false, with a finding, when they fail.
bool build_communicator(Member& member, uint64_t uid);
dw_setup_info setup_info(const Member& member, uint64_t uid);
dw_open_info open_info();

// "broken: 3: reason text".
std::string error_text(int32_t code, const dw_error& error);

// Runs `body` on every rank with an open backend and a communicator, which is
// destroyed afterwards. A body that does not end is ended by `comm_abort`,
// which is a finding.
void run_team(const dw_backend_api& api, int size, const Limits& limits,
              Findings& findings, const std::function<void(Member&)>& body);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_TEAM_H_
