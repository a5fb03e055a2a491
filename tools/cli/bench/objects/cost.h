// The cost of objects between ranks: all_gather_object compared with two
// all_gathers of as many bytes, the least that an exchange of sizes and bytes
// needs.
//
// Threads: one at a time.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_OBJECTS_COST_H_
#define DISTWRAP_TOOLS_CLI_BENCH_OBJECTS_COST_H_

#include "bench/statistics.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

// Microseconds of a call on rank 0, one value for each round: objects, raw
// calls, and the raw calls again as a control.
struct ObjectBlocks {
  std::vector<double> objects, raw, again;
};

// The body of one rank; rank 0 writes `path`.
absl::Status measure_objects(const std::string& backend, int64_t bytes,
                             int rounds, const std::string& path);

std::string write_blocks(const ObjectBlocks& blocks);
absl::StatusOr<ObjectBlocks> read_blocks(absl::string_view text);

struct ObjectCost {
  std::string backend;
  int ranks = 0;
  int64_t bytes = 0;
  ObjectBlocks blocks;
};

std::string show_cost(const ObjectCost& cost);
std::string cost_json(const ObjectCost& cost);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OBJECTS_COST_H_
