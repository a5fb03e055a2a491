// The ledger: memory in which the processes of a try write times and errors for
// each other, and that outlives each of them. Times are of CLOCK_MONOTONIC,
// which the processes of a host share.
//
// Threads: each word has one writer, except `struck_ns` and `go`. Ownership:
// the director makes the memory, ranks inherit its descriptor.
#ifndef DISTWRAP_TESTS_CHAOS_LEDGER_H_
#define DISTWRAP_TESTS_CHAOS_LEDGER_H_

#include "distwrap/status.h"

#include <absl/strings/string_view.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace distwrap::chaos {

inline constexpr size_t kMostRanks = 16;
inline constexpr size_t kMostGroups = 8;
inline constexpr size_t kMostCalls = 32;

// The first error that a rank got from a group.
struct News {
  std::atomic<int64_t> heard_ns;  // 0: none; the fields below are written
                                  // before
  Reason reason;
  int32_t call;       // number of the call that returned it
  uint64_t culprits;  // a bit for each rank of the group
  char text[1024];
  char expected[256], actual[256];  // the two calls of a mismatch

  bool is_there() const { return heard_ns.load() != 0; }
};

struct RankPage {
  std::atomic<bool> ready;     // ready for the fault
  std::atomic<bool> finished;  // the rank came to its end, whatever it found
  std::atomic<uint64_t> rounds;
  std::atomic<int64_t> entered_ns[kMostCalls];
  std::atomic<int64_t> took_ns[8];  // times that the case measures
  std::atomic<int64_t> counted;     // counts of the case
  News news[kMostGroups];
  // The first mistake that the rank found itself.
  std::atomic<bool> is_wrong;
  char wrong[1024];
};

struct Ledger {
  std::atomic<int64_t> struck_ns;  // when the fault happened; 0: not yet
  std::atomic<int> go;             // a step of the case, set by the director
  std::atomic<bool> over;          // processes that were left behind may end
  std::atomic<int64_t> clock_step_s;
  RankPage ranks[kMostRanks];
};

// Stores the first error of a rank; later ones are ignored.
void tell(RankPage& page, size_t group, const absl::Status& status, int call,
          int64_t heard_ns);
// Stores the first mistake. Any thread.
void complain(RankPage& page, absl::string_view wrong);

// Anonymous shared memory.
class LedgerMemory {
 public:
  LedgerMemory();
  // The memory that a rank has inherited.
  explicit LedgerMemory(int fd);
  ~LedgerMemory();
  LedgerMemory(const LedgerMemory&) = delete;
  LedgerMemory& operator=(const LedgerMemory&) = delete;

  int fd() const { return fd_; }
  Ledger& operator*() const { return *ledger_; }

 private:
  void map();

  int fd_;
  Ledger* ledger_ = nullptr;
};

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_LEDGER_H_
