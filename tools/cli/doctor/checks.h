// Judges a host: what would break a job, or slow it, and how to mend it.
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

// kFail: jobs break. kWarn: some do, or are slow.
enum class Health { kOk, kWarn, kFail };

struct Finding {
  Health health;
  std::string check;     // "descriptors"; several findings may share it
  std::string what;      // as it is
  std::string why = {};  // it matters; empty when all is well
  std::string fix = {};  // likewise
};

std::vector<Finding> judge(const HostFacts& facts);

// The worst of them.
Health worst(const std::vector<Finding>& findings);

const char* health_name(Health health);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_CHECKS_H_
