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

// One line, without its end, for one measured row: the fields peer, op, ranks,
// bytes, dtype, lat_us_min, lat_us_p50, lat_us_p99, algbw_GBps, iters and
// correct, which other measuring programs print as well, and further ones.
std::string json_line(const Row& row);

// The line before the rows: machine, build, settings. It begins with a blank,
// so that programs that look for results skip it.
std::string json_header(const Report& report);

// The whole run as one document; `schema` counts incompatible changes of the
// format.
std::string json_document(const Report& report);

// Reads the document of an earlier run; the error describes other content.
absl::StatusOr<OldRun> parse_document(absl::string_view text);

// The text of any other JSON document of the command.
std::string json_text(const cli::JsonValue& value);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_JSON_H_
