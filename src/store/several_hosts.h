// Where the ranks of a job on several hosts meet when a launcher started them.
//
// Threads: pure functions of the given environment; `source_address` asks the
// system and may ask the resolver.
#ifndef DISTWRAP_SRC_STORE_SEVERAL_HOSTS_H_
#define DISTWRAP_SRC_STORE_SEVERAL_HOSTS_H_

#include "base/settings.h"
#include "store/launch_info.h"
#include "store/network_address.h"

#include <string>
#include <vector>

namespace distwrap::store {

// The host on which the launcher has started rank 0, as far as its variables
// tell: MASTER_ADDR, or the first node of the Slurm step. "" when they do not.
std::string first_host(const LaunchInfo& info,
                       const base::Environment& environment);

// The first name of a list of Slurm, such as "gpu[08-11,14],login"; "" for a
// text that is none.
std::string first_node(absl::string_view list);

// Ten ports that follow from the job's name, below the ports that the system
// hands out by itself. Rank 0 takes the first one that is free, never the
// launcher's own port: torchrun's agent listens on MASTER_PORT.
std::vector<HostPort> job_ports(const std::string& host, absl::string_view job);

// The address from which this host reaches a place, without sending anything;
// "" when there is no way.
std::string source_address(const HostPort& place);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_SEVERAL_HOSTS_H_
