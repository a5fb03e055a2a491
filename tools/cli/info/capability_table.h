// What a backend can do, for every operation, form, element type and reduction:
// natively, composed of other operations, or not at all.
//
// Equal answers are one row. Threads: pure functions.
//
//   CapabilityTable table = capability_table("gloo", rows);
//   std::fputs(to_text(table).c_str(), stdout);
#ifndef DISTWRAP_TOOLS_CLI_INFO_CAPABILITY_TABLE_H_
#define DISTWRAP_TOOLS_CLI_INFO_CAPABILITY_TABLE_H_

#include "distwrap/abi/plugin.h"
#include "json_value.h"

#include <absl/types/span.h>

#include <string>
#include <vector>

namespace distwrap::cli {

struct CapabilityRow {
  std::string op;
  // "plain", "in place", "per rank", "parts", "exclusive".
  std::vector<std::string> forms;
  std::vector<std::string> dtypes;      // none where there is no buffer
  std::vector<std::string> reductions;  // none where nothing is reduced
  // These are all that exist.
  bool every_form = false, every_dtype = false, every_reduction = false;
  std::string how;  // "native", "composed", "refused"
  std::string of;   // of what it is composed
};

struct CapabilityTable {
  std::string backend;
  std::vector<CapabilityRow> rows;
};

// For host memory.
CapabilityTable capability_table(const std::string& backend,
                                 absl::Span<const dw_caps_row> rows);

std::string to_text(const CapabilityTable& table);
std::string to_markdown(const CapabilityTable& table);
JsonArray to_json(const CapabilityTable& table);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_CAPABILITY_TABLE_H_
