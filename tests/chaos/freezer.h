// Stands a process still in one of two ways, and lets it go on.
//
// Threads: one. Ownership: lets go, and removes its control group, at its end.
//
//   Freezer freezer(pid);
//   if (freezer.works()) freezer.stop();
#ifndef DISTWRAP_TESTS_CHAOS_FREEZER_H_
#define DISTWRAP_TESTS_CHAOS_FREEZER_H_

#include <string>
#include <sys/types.h>

namespace distwrap::chaos {

// By the freezer of control groups, of either version.
class Freezer {
 public:
  explicit Freezer(pid_t pid);
  ~Freezer();
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  // Whether this host lets us.
  bool works() const { return !folder_.empty(); }
  void stop() const;
  void go_on() const;

 private:
  std::string folder_, file_, on_, off_;
};

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_FREEZER_H_
