// The abilities of a backend for every operation, form, element type and
// reduction: native, composed of other operations, or refused.
//
// Equal answers share a row. Threads: pure functions.
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
  // The name of an operation; "moe rows" for the extension distwrap.moe, and
  // "moe sums" for distwrap.moe.sum.
  std::string op;
  // "plain", "in place", "per rank", "parts", "exclusive".
  std::vector<std::string> forms;
  std::vector<std::string> dtypes;      // empty for operations without a buffer
  std::vector<std::string> reductions;  // empty for operations that do not
                                        // reduce
  // Whether the lists above are complete.
  bool every_form = false, every_dtype = false, every_reduction = false;
  std::string how;  // "native", "composed", "refused"
  std::string of;   // the operations of which it is composed
};

struct CapabilityTable {
  std::string backend;
  std::vector<CapabilityRow> rows;
};

// The table for memory of a device type. `moves_rows`, `adds_rows`: whether the
// backend knows the extensions distwrap.moe and distwrap.moe.sum.
CapabilityTable capability_table(const std::string& backend,
                                 absl::Span<const dw_caps_row> promised,
                                 int device_type = DW_DEVICE_CPU,
                                 bool moves_rows = false,
                                 bool adds_rows = false);

std::string to_text(const CapabilityTable& table);
std::string to_markdown(const CapabilityTable& table);
JsonArray to_json(const CapabilityTable& table);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_CAPABILITY_TABLE_H_
