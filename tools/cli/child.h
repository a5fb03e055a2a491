// Starts a process that cannot outlive its parent.
//
// Threads: any; a child dies with the thread that started it.
#ifndef DISTWRAP_TOOLS_CLI_CHILD_H_
#define DISTWRAP_TOOLS_CLI_CHILD_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <signal.h>
#include <string>
#include <sys/types.h>
#include <vector>

namespace distwrap::cli {

// A program, looked up as a shell does.
struct Program {
  std::string path = {};
  int error = 0;  // ENOENT, or the reason why it cannot be executed
};
Program find_program(const std::string& name);

// Opens /dev/null for closed descriptors among 0, 1 and 2, so that no pipe gets
// their numbers.
void fill_standard_descriptors();

// The process's signal actions at its start; children get the same.
class SignalState {
 public:
  SignalState();
  ~SignalState() { restore(true); }
  SignalState(const SignalState&) = delete;
  SignalState& operator=(const SignalState&) = delete;

  bool is_ignored(int signal) const;
  // Safe after fork. Handlers have no meaning in a new program, so without
  // `handlers` only ignored signals are restored.
  void restore(bool handlers) const;

 private:
  struct sigaction actions_[NSIG] = {};
  sigset_t mask_ = {};
};

struct ChildSpec {
  std::string path = {};
  std::vector<std::string> argv = {};
  std::vector<std::string> environment = {};  // "NAME=value"
  int descriptors[3] = {-1, -1, -1};          // for 0, 1, 2; -1: the parent's
  int core = -1;                              // core to run on; -1: any
};

// Starts the child in a process group of its own; it is killed when its parent
// dies.
absl::StatusOr<pid_t> start_child(const ChildSpec& spec,
                                  const SignalState& signals);

// The cores on which this process may run.
std::vector<int> usable_cores();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_CHILD_H_
