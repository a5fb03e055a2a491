// MPI libraries as contestants. Each rank has an MPI process beside it, which
// makes the same calls on buffers of its own and times them itself. The process
// sleeps while other contestants have their turn.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MPI_CONTESTANT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MPI_CONTESTANT_H_

#include "bench/contestant.h"

#include <vector>

namespace distwrap::bench::mpi {

// All known MPI libraries; a library that is not installed carries the reason.
std::vector<ContestantKind> kinds();

}  // namespace distwrap::bench::mpi

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MPI_CONTESTANT_H_
