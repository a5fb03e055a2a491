// Names, addresses and interfaces of this host.
#ifndef DISTWRAP_TOOLS_CLI_DOCTOR_NETWORK_FACTS_H_
#define DISTWRAP_TOOLS_CLI_DOCTOR_NETWORK_FACTS_H_

#include "doctor/host_facts.h"

namespace distwrap::cli {

NetworkFacts network_facts();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_NETWORK_FACTS_H_
