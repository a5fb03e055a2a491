#include "in_child.h"

#include <csignal>
#include <cstring>
#include <ctime>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::testing {

std::string run_in_child(int seconds, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child < 0) return "the child could not be started";
  if (child == 0) _exit(body());
  constexpr int kLooksPerSecond = 200;
  int status = 0;
  for (int look = 0; waitpid(child, &status, WNOHANG) == 0; ++look) {
    if (look == seconds * kLooksPerSecond) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "the child did not end in " + std::to_string(seconds) + " s";
    }
    const timespec nap{0, 1'000'000'000 / kLooksPerSecond};
    nanosleep(&nap, nullptr);
  }
  if (WIFSIGNALED(status))
    return std::string("the child ended by ") + strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0
             ? ""
             : "the child returned " + std::to_string(WEXITSTATUS(status));
}

}  // namespace distwrap::testing
