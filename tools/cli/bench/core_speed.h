// The present speed of a core.
//
// On a machine that several guests share, a core is slower while another guest
// runs on its second hardware thread: busy code takes a third to two thirds
// longer, for milliseconds to seconds. No counter of the kernel shows this.
//
// Threads: used by one.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_CORE_SPEED_H_
#define DISTWRAP_TOOLS_CLI_BENCH_CORE_SPEED_H_

#include <cstdint>

namespace distwrap::bench {

class CoreSpeed {
 public:
  // False where this system itself runs two threads on a core, because its own
  // work then slows the core.
  static bool tells_of_others();
  // Times a few microseconds of arithmetic and returns the ratio to the
  // shortest time so far: 1 is the core at its best, 1.5 is half as long again.
  double slowdown();

 private:
  int64_t least_ns_ = 0;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_CORE_SPEED_H_
