// Nanoseconds of a call. On a shared machine the best of many repetitions
// counts: --benchmark_repetitions=20 --benchmark_report_aggregates_only=false
#include "crossing/board_crossing.h"
#include "crossing/crossing.h"

#include <benchmark/benchmark.h>

namespace {

void through_facade(benchmark::State& state) {
  distwrap::testing::Crossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.through_facade());
}
BENCHMARK(through_facade);

void through_facade_group(benchmark::State& state) {
  distwrap::testing::Crossing crossing;
  for (auto _ : state)
    benchmark::DoNotOptimize(crossing.through_facade_group());
}
BENCHMARK(through_facade_group);

void through_c(benchmark::State& state) {
  distwrap::testing::Crossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.through_c());
}
BENCHMARK(through_c);

void through_c_group(benchmark::State& state) {
  distwrap::testing::Crossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.through_c_group());
}
BENCHMARK(through_c_group);

void straight(benchmark::State& state) {
  distwrap::testing::Crossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.straight());
}
BENCHMARK(straight);

void shown(benchmark::State& state) {
  distwrap::testing::BoardCrossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.shown());
}
BENCHMARK(shown);

void unshown(benchmark::State& state) {
  distwrap::testing::BoardCrossing crossing;
  for (auto _ : state) benchmark::DoNotOptimize(crossing.unshown());
}
BENCHMARK(unshown);

}  // namespace

BENCHMARK_MAIN();
