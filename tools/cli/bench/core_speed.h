// How fast a core runs just now.
//
// What a machine lends to several guests is slower while another one is on the
// second thread of the same core: by a third to two thirds for code that is
// busy, for milliseconds to seconds. Nothing that the kernel counts tells of
// it.
//
// Threads: used by one.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_CORE_SPEED_H_
#define DISTWRAP_TOOLS_CLI_BENCH_CORE_SPEED_H_

#include <cstdint>

namespace distwrap::bench {

class CoreSpeed {
 public:
  // Not where this system itself runs two threads on a core: there its own work
  // slows them.
  static bool tells_of_others();
  // Times a few microseconds of arithmetic: beside the least that it has taken
  // so far, so 1 is the core at its best, and 1.5 takes half as long again.
  double slowdown();

 private:
  int64_t least_ns_ = 0;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_CORE_SPEED_H_
