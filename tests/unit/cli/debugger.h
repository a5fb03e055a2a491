// Holds a process as a debugger does: all its threads stand still until the
// object ends.
//
// Threads: the one that made it.
//
//   {
//     const Debugger debugger(process.pid());
//     if (!debugger.holds()) GTEST_SKIP() << "...";
//     ...
//   }  // the process goes on
#ifndef DISTWRAP_TESTS_UNIT_CLI_DEBUGGER_H_
#define DISTWRAP_TESTS_UNIT_CLI_DEBUGGER_H_

#include <sys/types.h>
#include <vector>

namespace distwrap::cli {

class Debugger {
 public:
  explicit Debugger(pid_t pid);
  ~Debugger();
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

  // False where the system lets this program trace nobody.
  bool holds() const { return !threads_.empty(); }

 private:
  std::vector<pid_t> threads_;
};

}  // namespace distwrap::cli

#endif  // DISTWRAP_TESTS_UNIT_CLI_DEBUGGER_H_
