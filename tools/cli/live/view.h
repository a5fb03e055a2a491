// The present state of a running job, for people and programs: each rank, each
// group, and the ranks that are behind.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_LIVE_VIEW_H_
#define DISTWRAP_TOOLS_CLI_LIVE_VIEW_H_

#include "comm/board/live.h"
#include "json_value.h"

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::cli {

// A rank of the host, with the fields that a group's row shows.
struct LivePosition {
  const comm::LiveRank* rank;
  const comm::LiveGroup* in_group;
};

struct LiveGroupView {
  uint64_t uid = 0;
  std::string name;
  int32_t size = 0;
  std::vector<LivePosition> ranks;  // by rank of the group
  // The newest collective in which a rank waits; 0: no rank waits.
  uint64_t waited = 0;
  // Ranks of the group, of this host, that have not come to that collective.
  std::vector<int> behind;
  int64_t elsewhere = 0;  // ranks that are not visible here
};

// Borrows from the board.
std::vector<LiveGroupView> groups_of(const comm::LiveBoard& board);

// The state of a process: "runs", "stopped" or "ended".
using StateOf = absl::FunctionRef<std::string(int64_t pid)>;

std::string to_text(const comm::LiveBoard& board, int64_t now_ns,
                    StateOf state_of);
JsonObject to_json(const comm::LiveBoard& board, int64_t now_ns,
                   StateOf state_of);

// Whether no rank is left.
bool has_ended(const comm::LiveBoard& board);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_LIVE_VIEW_H_
