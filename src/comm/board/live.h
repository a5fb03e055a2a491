// The board of a job as somebody outside of it sees it: a copy of what its
// ranks show, read from a descriptor of the memory. Nothing is mapped, so
// whatever happens to the memory is no signal here, and nothing of it is
// reserved; and nothing that stands in it is believed: numbers are numbers,
// texts are cut and cleaned.
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
  uint64_t last = 0;  // its newest collective; 0: none yet
  // The one that it waits in, else the oldest that runs beside; 0: none.
  uint64_t inside = 0;
  // In nanoseconds of the monotonic clock: since when it is inside, else since
  // when `last` is its last; 0: not known.
  int64_t since_ns = 0;
  // Of `inside`, else of `last`: "all_reduce f32 x 1024 sum"; empty when it was
  // being written.
  std::string call, label;
};

struct LiveRank {
  int32_t rank = -1;  // of the world
  int64_t pid = 0;
  std::string host;
  enum class State : uint8_t {
    kStarting,  // it has not come yet
    kRuns,
    kEnded,  // without taking its leave
    kLeft,
  };
  State state = State::kStarting;
  std::vector<LiveGroup> groups;
};

struct LiveBoard {
  uint64_t job = 0;        // 0: no rank has come yet
  int32_t world_size = 0;  // as the ranks say
  std::vector<LiveRank> ranks;

  // Errors: kRefused when it is no board, or that of another version of this
  // library.
  static absl::StatusOr<LiveBoard> read(int memory);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_LIVE_H_
