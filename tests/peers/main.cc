// `distwrap bench` with other libraries to compare with.
#include "bench/mpi/contestant.h"
#include "bench_command.h"
#include "memcpy.h"
#include "raw_gloo.h"
#include "redistribute.h"
#ifdef DISTWRAP_HAS_UCX
#include "raw_ucx.h"
#endif

#include <string>
#include <vector>

int main(int argc, char** argv) {
  using distwrap::peers::make_memcpy;
  using distwrap::peers::make_raw_gloo;
  std::vector<distwrap::bench::ContestantKind> kinds = {
      {"raw_gloo", "Gloo itself, ring all-reduce", "", make_raw_gloo}};
#ifdef DISTWRAP_HAS_UCX
  kinds.push_back({"raw_ucx", "UCX itself, messages and windows", "",
                   distwrap::peers::make_raw_ucx});
  kinds.push_back({"raw_ucx_watched", "UCX itself, with watched connections",
                   "", distwrap::peers::make_raw_ucx_watched});
#endif
  for (auto& kind : distwrap::bench::mpi::kinds()) kinds.push_back(kind);
  kinds.push_back({"redistribute", "collectives as redistributions, over shm",
                   "", distwrap::peers::make_redistribute});
  kinds.push_back({"memcpy", "every rank copies the bytes", "", make_memcpy});
  return distwrap::cli::run_bench(
      {}, std::vector<std::string>(argv + 1, argv + argc), kinds);
}
