// Stops a process in one of two ways, and lets it go on.
//
// Threads: one. Ownership: lets the process go on, and removes its control
// group, at its end.
//
//   Freezer freezer(pid);
//   if (freezer.works()) freezer.stop();
#ifndef DISTWRAP_TESTS_CHAOS_FREEZER_H_
#define DISTWRAP_TESTS_CHAOS_FREEZER_H_

#include <string>
#include <sys/types.h>

namespace distwrap::chaos {

// Uses the freezer of control groups, of either version.
class Freezer {
 public:
  explicit Freezer(pid_t pid);
  ~Freezer();
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  // Whether this host permits it.
  bool works() const { return !folder_.empty(); }
  void stop() const;
  void go_on() const;

 private:
  std::string folder_, file_, on_, off_;
};

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_FREEZER_H_
