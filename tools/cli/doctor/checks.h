// Judges a host: the conditions that break or slow a job, and their remedies.
//
// Threads: pure functions.
//
//   for (const Finding& f : judge(gather(environment))) print(f);
#ifndef DISTWRAP_TOOLS_CLI_DOCTOR_CHECKS_H_
#define DISTWRAP_TOOLS_CLI_DOCTOR_CHECKS_H_

#include "doctor/host_facts.h"

#include <string>
#include <vector>

namespace distwrap::cli {

// kFail: jobs fail. kWarn: some jobs fail or are slow.
enum class Health { kOk, kWarn, kFail };

struct Finding {
  Health health;
  std::string check;     // "descriptors"; several findings may share it
  std::string what;      // the observed state
  std::string why = {};  // why it matters; empty for kOk
  std::string fix = {};  // the remedy; empty for kOk
};

std::vector<Finding> judge(const HostFacts& facts);

// The worst health of all findings.
Health worst(const std::vector<Finding>& findings);

const char* health_name(Health health);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_CHECKS_H_
