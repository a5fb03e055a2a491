// MPI libraries as contestants. Each rank has a process of the MPI beside it,
// which makes the same calls on buffers of its own and times them itself; while
// others have their turn it sleeps.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MPI_CONTESTANT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MPI_CONTESTANT_H_

#include "bench/contestant.h"

#include <vector>

namespace distwrap::bench::mpi {

// Those that are known; what is missing here says why.
std::vector<ContestantKind> kinds();

}  // namespace distwrap::bench::mpi

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MPI_CONTESTANT_H_
