// An operator new that fails once, at a given allocation of the process, for
// tests of what an allocation that fails leaves behind. Programs that link it
// allocate by it everywhere; engines that call malloc are not touched.
//
//   FailingNew::arm(k);              // the k-th allocation from here on fails
//   ...
//   const bool failed = !FailingNew::disarm();
//
// Threads: any; one counter for all of them.
#ifndef DISTWRAP_TESTS_LIMITS_FAILING_NEW_H_
#define DISTWRAP_TESTS_LIMITS_FAILING_NEW_H_

#include <cstdint>

namespace distwrap::testing {

class FailingNew {
 public:
  static void arm(int64_t k);
  // Whether the allocation came, and failed.
  static bool disarm();
  // How many there were since `arm`.
  static int64_t counted();
  // Where it failed, to standard error; for handlers of crashes.
  static void show();

  // Allocations of this thread neither count nor fail while one lives.
  class Exempt {
   public:
    Exempt();
    ~Exempt();
    Exempt(const Exempt&) = delete;
    Exempt& operator=(const Exempt&) = delete;
  };
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_LIMITS_FAILING_NEW_H_
