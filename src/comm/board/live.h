// The board of a job as a tool outside of the job sees it: a copy of what its
// ranks show, read from a descriptor of the memory. Nothing is mapped, so a
// change of the memory cannot cause a signal here, and no memory is reserved.
// Nothing in it is trusted: numbers stay numbers, texts are cut and cleaned.
//
// Threads: pure.
//
//   auto board = LiveBoard::read(memory);
//   for (const LiveRank& rank : board->ranks) ...
#ifndef DISTWRAP_SRC_COMM_BOARD_LIVE_H_
#define DISTWRAP_SRC_COMM_BOARD_LIVE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::comm {

// A rank in one of its groups.
struct LiveGroup {
  uint64_t uid = 0;
  std::string name;
  int32_t rank = 0, size = 0;
  uint64_t last = 0;  // the rank's newest collective; 0: none yet
  // The collective in which the rank waits, else the oldest that runs beside
  // its caller; 0: none.
  uint64_t inside = 0;
  // Nanoseconds of the monotonic clock: since when the rank is in `inside`,
  // else since when `last` has been its newest call; 0: unknown.
  int64_t since_ns = 0;
  // The call `inside`, else `last`: "all_reduce f32 x 1024 sum"; empty when it
  // was being written.
  std::string call, label;
};

struct LiveRank {
  int32_t rank = -1;  // in the world
  int64_t pid = 0;
  std::string host;
  enum class State : uint8_t {
    kStarting,  // the rank has not come yet
    kRuns,
    kEnded,  // ended without closing its area
    kLeft,
  };
  State state = State::kStarting;
  std::vector<LiveGroup> groups;
  int guard = 0;  // GuardMode of the rank's session; another number is nonsense
  bool has_door = false;  // whether it can refuse calls of C
  uint64_t refused = 0;   // calls that the door refused, or told of
  // The rank is on another host, and this is what it has told of itself.
  bool is_told = false;
};

struct LiveBoard {
  uint64_t job = 0;        // 0: no rank has come yet
  int32_t world_size = 0;  // as the ranks say
  std::vector<LiveRank> ranks;

  // Errors: kRefused when the memory is not a board, or is the board of another
  // version of this library.
  static absl::StatusOr<LiveBoard> read(int memory);
  // Adds what a rank of this host has heard of those of others (far_memory.h).
  void add_told(const LiveBoard& told);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_LIVE_H_
