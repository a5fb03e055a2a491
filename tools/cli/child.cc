#include "child.h"

#include "base/error.h"
#include "launcher.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

int why_not_executable(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  // exec takes pointers to non-const char but does not write through them.
  for (const std::string& text : texts)
    result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

void say(const char* text) {
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text, strlen(text));
}

// The steps that only the new process can do. It calls nothing that allocates
// or locks.
[[noreturn]] void become(const ChildSpec& spec, char* const* argv,
                         char* const* environment, const cpu_set_t* cores,
                         const SignalState& signals, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl took effect.
  if (getppid() != parent) _exit(kNotExecutable);
  for (int i = 0; i < 3; ++i)
    if (spec.descriptors[i] >= 0 && dup2(spec.descriptors[i], i) < 0)
      _exit(kNotExecutable);
  // Pinning is optional: a job in a smaller set of cores still runs.
  if (cores != nullptr) sched_setaffinity(0, sizeof *cores, cores);
  signals.restore(false);
  execvpe(spec.path.c_str(), argv, environment);
  const int error = errno;
  say("distwrap: ");
  say(spec.path.c_str());
  say(error == ENOENT ? " cannot be executed: its interpreter is missing\n"
                      : " cannot be executed: ");
  if (error != ENOENT) {
    say(strerrordesc_np(error));
    say("\n");
  }
  _exit(kNotExecutable);
}

}  // namespace

Program find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return {.path = name, .error = why_not_executable(name)};
  const char* const path = getenv("PATH");
  Program found{.error = ENOENT};
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    const std::string candidate =
        absl::StrCat(folder.empty() ? "." : folder, "/", name);
    const int error = why_not_executable(candidate);
    if (error == 0) return {.path = candidate};
    // A file without permission to execute explains more than no file.
    if (error == EACCES) found.error = EACCES;
  }
  return found;
}

void fill_standard_descriptors() {
  for (;;) {
    const int fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

SignalState::SignalState() {
  for (int i = 1; i < NSIG; ++i) sigaction(i, nullptr, &actions_[i]);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
}

bool SignalState::is_ignored(int signal) const {
  return actions_[signal].sa_handler == SIG_IGN;
}

void SignalState::restore(bool handlers) const {
  for (int i = 1; i < NSIG; ++i) {
    struct sigaction action = actions_[i];
    if (!handlers && !is_ignored(i)) {
      action = {};
      action.sa_handler = SIG_DFL;
    }
    sigaction(i, &action, nullptr);  // refused for SIGKILL and SIGSTOP
  }
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

absl::StatusOr<pid_t> start_child(const ChildSpec& spec,
                                  const SignalState& signals) {
  const std::vector<char*> argv = pointers(spec.argv);
  const std::vector<char*> environment = pointers(spec.environment);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (spec.core >= 0) CPU_SET(static_cast<size_t>(spec.core), &cores);

  // A signal handler of this program must not run in the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t child = fork();
  const int error = errno;
  if (child == 0)
    become(spec, argv.data(), environment.data(),
           spec.core >= 0 ? &cores : nullptr, signals, parent);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0)
    return base::make_error({.reason = Reason::kResourceLimit,
                             .what = "no process can be started",
                             .op = "launch",
                             .cause = base::errno_text(error),
                             .next_step = "raise `ulimit -u`"});
  // Parent and child call setpgid, so that the group exists for whichever runs
  // first.
  setpgid(child, child);
  return child;
}

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(static_cast<size_t>(i), &set)) cores.push_back(i);
  return cores;
}

}  // namespace distwrap::cli
