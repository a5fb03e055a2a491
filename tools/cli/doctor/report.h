// Findings as text and JSON.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_DOCTOR_REPORT_H_
#define DISTWRAP_TOOLS_CLI_DOCTOR_REPORT_H_

#include "doctor/checks.h"
#include "json_value.h"

#include <string>
#include <vector>

namespace distwrap::cli {

// With `quiet`, leaves out findings of kOk.
std::string to_text(const std::vector<Finding>& findings, bool quiet);
JsonObject to_json(const std::vector<Finding>& findings, bool quiet);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_REPORT_H_
