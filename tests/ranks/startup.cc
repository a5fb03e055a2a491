// The time from the start of main to the first collective of a world, and the
// processor time of its ranks while they are idle:
//
//   distwrap run -n 4 startup [BACKEND [SECONDS]]
//
// Rank 0 prints a line for each. The smallest of several runs counts. The
// default backend is gloo; without SECONDS the ranks do not idle.
#include "distwrap/distwrap.h"

#include <absl/strings/numbers.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace {

using distwrap::Deadline;

template <class Result>
auto require(Result result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
  std::exit(1);
}

// The values of all ranks, by rank.
std::vector<int64_t> of_all(int64_t mine) {
  std::vector<int64_t> all(static_cast<size_t>(distwrap::get_world_size()));
  require(distwrap::all_gather_into_tensor(distwrap::TensorView(all),
                                           distwrap::TensorView(&mine, 1)));
  return all;
}

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// The processor time of all threads of this process.
int64_t processor_ns() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  return (int64_t{used.ru_utime.tv_sec} + used.ru_stime.tv_sec) *
             1'000'000'000 +
         (int64_t{used.ru_utime.tv_usec} + used.ru_stime.tv_usec) * 1'000;
}

void tell_idle(absl::Duration time) {
  const int64_t before = processor_ns();
  absl::SleepFor(time);
  const std::vector<int64_t> used = of_all(processor_ns() - before);
  if (distwrap::get_rank() != 0) return;
  const double most =
      static_cast<double>(*std::max_element(used.begin(), used.end()));
  double sum = 0;
  for (const int64_t one : used) sum += static_cast<double>(one);
  const double all = absl::ToDoubleNanoseconds(time);
  std::printf("idle: %.3f %% of a processor a rank, %.3f %% the most\n",
              100 * sum / all / static_cast<double>(used.size()),
              100 * most / all);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t started = Deadline::now_ns();
  require(
      distwrap::init_process_group({.backend = argc > 1 ? argv[1] : "gloo"}));
  const int64_t ready = Deadline::now_ns();
  require(distwrap::barrier());
  const int64_t end = Deadline::now_ns();
  // All processes of a host share the monotonic clock.
  const std::vector<int64_t> starts = of_all(started);
  const int64_t last = *std::max_element(starts.begin(), starts.end());
  if (distwrap::get_rank() == 0)
    std::printf(
        "%d ranks: ready after %.2f ms, %.2f ms after the last has begun, "
        "first barrier %.2f ms\n",
        distwrap::get_world_size(), ms(ready - started), ms(ready - last),
        ms(end - ready));
  double seconds = 0;
  if (argc > 2 && absl::SimpleAtod(argv[2], &seconds))
    tell_idle(absl::Seconds(seconds));
  return distwrap::destroy_process_group().ok() ? 0 : 1;
}
