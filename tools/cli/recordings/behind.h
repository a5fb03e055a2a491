// Finds the ranks that are behind others, from the recordings of a job's ranks.
//
// Recordings of some ranks may be missing. Ranks are those of the world, where
// the recordings contain them.
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_RECORDINGS_BEHIND_H_
#define DISTWRAP_TOOLS_CLI_RECORDINGS_BEHIND_H_

#include "json_value.h"
#include "recordings/recording.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::cli {

// One rank in one group.
struct RankPosition {
  int64_t rank = -1;      // rank of the world; -1: not known
  bool recorded = false;  // false: the fields below are empty
  std::string host;
  int64_t pid = 0;
  int64_t time_ns = 0;             // time of the recording
  std::optional<RecordedOp> last;  // last collective of the rank
  // Operations that have not ended, earliest first.
  std::vector<RecordedOp> open;
};

struct GroupPosition {
  std::string uid, name, backend;
  std::vector<RankPosition> ranks;  // by rank of the group
  // Problems, the most telling one first; empty when there are none.
  std::vector<std::string> findings;
};

// Groups in the order in which ranks made them.
std::vector<GroupPosition> positions_of(const JobRecording& job);

// "all_reduce #18 (f32 x 256, 'gradients')".
std::string describe(const RecordedOp& op);

std::string to_text(const JobRecording& job,
                    const std::vector<GroupPosition>& groups);
JsonObject to_json(const JobRecording& job,
                   const std::vector<GroupPosition>& groups);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_RECORDINGS_BEHIND_H_
