// How long a world takes from the start of main to its first collective:
//
//   distwrap run -n 4 startup [BACKEND]
//
// prints one line of rank 0. Read the smallest of several runs. The backend is
// gloo when none is named.
#include "distwrap/distwrap.h"

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  const int64_t started = distwrap::Deadline::now_ns();
  const absl::Status made =
      distwrap::init_process_group({.backend = argc > 1 ? argv[1] : "gloo"})
          .status();
  const int64_t ready = distwrap::Deadline::now_ns();
  const absl::Status met = made.ok() ? distwrap::barrier().status() : made;
  const int64_t end = distwrap::Deadline::now_ns();
  if (!met.ok()) {
    std::fprintf(stderr, "%s\n", std::string(met.message()).c_str());
    return 1;
  }
  if (distwrap::get_rank() == 0)
    std::printf("%d ranks: ready after %.2f ms, first barrier %.2f ms\n",
                distwrap::get_world_size(),
                static_cast<double>(ready - started) / 1e6,
                static_cast<double>(end - ready) / 1e6);
  return distwrap::destroy_process_group().ok() ? 0 : 1;
}
