// The cases, each in the file of its name.
#ifndef DISTWRAP_TESTS_CHAOS_CASES_H_
#define DISTWRAP_TESTS_CHAOS_CASES_H_

#include "chaos/case.h"

namespace distwrap::chaos {

extern const Case kKilled;         // killed.cc
extern const Case kGroupsKilled;   // groups_killed.cc
extern const Case kLeftChild;      // left_child.cc
extern const Case kStopped;        // stopped.cc
extern const Case kMutated;        // mutated.cc
extern const Case kAborted;        // aborted.cc
extern const Case kLives;          // lives.cc
extern const Case kForked;         // forked.cc
extern const Case kThreaded;       // threads.cc
extern const Case kStepped;        // stepped.cc
extern const Case kWindowsLost;    // windows_lost.cc
extern const Case kExpertsKilled;  // experts_killed.cc
extern const Case kMeshesLost;     // meshes_lost.cc

extern const Case kNetworkCut;       // network_cut.cc
extern const Case kNetworkPoor;      // network_poor.cc
extern const Case kNetworkDamaged;   // network_damaged.cc
extern const Case kRootLost;         // hosts_lost.cc
extern const Case kAgentKilled;      // hosts_lost.cc
extern const Case kRankAgentKilled;  // agent_killed.cc
extern const Case kHostKilled;       // host_killed.cc
extern const Case kStrangers;        // strangers.cc
extern const Case kTwoKilled;        // two_killed.cc

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_CASES_H_
