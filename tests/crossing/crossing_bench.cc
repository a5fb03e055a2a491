// Nanoseconds per call. Best of many repetitions is what to read on a shared
// machine: --benchmark_repetitions=20 --benchmark_report_aggregates_only=false
#include "crossing/crossing.h"

#include <benchmark/benchmark.h>

namespace {

void through_facade(benchmark::State& state) {
  distwrap::testing::Crossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.through_facade());
}
BENCHMARK(through_facade);

void straight(benchmark::State& state) {
  distwrap::testing::Crossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.straight());
}
BENCHMARK(straight);

}  // namespace

BENCHMARK_MAIN();
