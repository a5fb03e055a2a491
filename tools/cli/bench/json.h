// Results for programs, as JSON.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_JSON_H_
#define DISTWRAP_TOOLS_CLI_BENCH_JSON_H_

#include "bench/compare.h"
#include "bench/report.h"
#include "json_value.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::bench {

// One line for one measured row, without its end: peer, op, ranks, bytes,
// dtype, lat_us_min, lat_us_p50, lat_us_p99, algbw_GBps, iters, correct, as
// other measuring programs print it, and what we know beyond.
std::string json_line(const Row& row);

// What precedes such lines: machine, build, settings. It begins with a blank,
// so that readers who look for results pass over it.
std::string json_header(const Report& report);

// The whole run, one document; `schema` counts its incompatible changes.
std::string json_document(const Report& report);

// Such a document of an earlier run; the error says what it is instead.
absl::StatusOr<OldRun> parse_document(absl::string_view text);

// Any other document of the command, likewise.
std::string json_text(const cli::JsonValue& value);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_JSON_H_
