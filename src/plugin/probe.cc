#include "plugin/probe.h"

#include "base/error.h"
#include "base/log.h"
#include "distwrap/deadline.h"
#include "plugin/probe_answer.h"
#include "plugin/refusal.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::plugin {
namespace {

// Only the end of the child's output is kept.
constexpr size_t kMaxOutput = 2048;
// The interval of looking for a child that closed its output before it ended.
constexpr absl::Duration kLook = absl::Milliseconds(10);

class Pipe {
 public:
  Pipe() {
    if (pipe2(fds_, O_CLOEXEC) != 0) fds_[0] = fds_[1] = -1;
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int which) {
    if (fds_[which] >= 0) close(fds_[which]);
    fds_[which] = -1;
  }
  int reader() const { return fds_[0]; }
  int writer() const { return fds_[1]; }

 private:
  int fds_[2];
};

// Returns 0 and the child's id, or an errno.
int spawn(const std::string& helper, const std::string& path, int output,
          pid_t* child) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                   0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The child gets a process group of its own, so that its descendants can be
  // killed with it. All signals are unblocked and have their default actions.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  std::string arguments[] = {helper, path};
  char* argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
  const int error =
      posix_spawn(child, helper.c_str(), &files, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

struct Ending {
  bool in_time = false;
  int status = -1;     // status of waitpid; -1 when another thread has taken it
  std::string output;  // end of the output
};

// Reads the child's output until the child has ended; kills it at the deadline.
Ending watch(pid_t child, int output, Deadline deadline) {
  Ending ending;
  bool open = true;
  while (true) {
    const int left =
        Deadline::earlier(deadline, Deadline::after(kLook)).remaining_ms();
    // The end of the child closes its output, which wakes this poll at once.
    // The bound serves a child that has closed its output before.
    pollfd wait = {open ? output : -1, POLLIN, 0};
    if (poll(&wait, 1, left) > 0) {
      char bytes[1024];
      const ssize_t n = read(output, bytes, sizeof bytes);
      if (n > 0) {
        ending.output.append(bytes, static_cast<size_t>(n));
        if (ending.output.size() > kMaxOutput)
          ending.output.erase(0, ending.output.size() - kMaxOutput);
        if (!deadline.passed()) continue;
      } else {
        open = false;
      }
    }
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno == ECHILD)) {
      ending.in_time = true;
      ending.status = ended == child ? status : -1;
      // The child may have written more since the last read.
      char bytes[kMaxOutput];
      const int flags = fcntl(output, F_GETFL);
      fcntl(output, F_SETFL, flags | O_NONBLOCK);
      const ssize_t n = read(output, bytes, sizeof bytes);
      if (n > 0) ending.output.append(bytes, static_cast<size_t>(n));
      return ending;
    }
    if (deadline.passed()) {
      kill(-child, SIGKILL);
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      return ending;
    }
  }
}

std::string for_people(absl::string_view output) {
  return absl::StrReplaceAll(absl::StripAsciiWhitespace(output),
                             {{"\n", " | "}});
}

}  // namespace

absl::Status probe(const std::string& path, const ProbeOptions& options) {
  if (options.helper.empty() || access(options.helper.c_str(), F_OK) != 0) {
    base::log(base::LogLevel::kInfo,
              absl::StrCat("no trial of ", path, ": there is no helper at '",
                           options.helper, "'"));
    return absl::OkStatus();
  }
  Pipe pipe;
  pid_t child = -1;
  int error = pipe.reader() < 0 ? errno : 0;
  if (error == 0) error = spawn(options.helper, path, pipe.writer(), &child);
  if (error != 0) {
    // The trial is a protection, not a permission: without it, loading goes on.
    base::log(base::LogLevel::kWarning,
              absl::StrCat("no trial of ", path, ": cannot start ",
                           options.helper, ": ", base::errno_text(error)));
    return absl::OkStatus();
  }
  pipe.close_end(1);
  const Ending ending =
      watch(child, pipe.reader(), Deadline::after(options.limit));
  absl::string_view output = ending.output;
  const bool done = absl::ConsumeSuffix(&output, kProbeDone);
  const bool not_loadable = absl::ConsumeSuffix(&output, kProbeNotLoadable);
  const std::string cause = for_people(output);
  if (!ending.in_time)
    return refuse(Refusal::kHangs, path,
                  {.about = absl::StrCat("ended after ",
                                         absl::FormatDuration(options.limit)),
                   .cause = cause});
  if (ending.status >= 0 && WIFSIGNALED(ending.status)) {
    const char* name = sigabbrev_np(WTERMSIG(ending.status));
    return refuse(
        Refusal::kCrashes, path,
        {.about = absl::StrCat("by SIG", name == nullptr ? "?" : name),
         .cause = cause});
  }
  if (done) return absl::OkStatus();
  if (not_loadable)
    return refuse(Refusal::kNotLoadable, path, {.cause = cause});
  return refuse(
      Refusal::kCrashes, path,
      {.about = ending.status >= 0
                    ? absl::StrCat("by exit ", WEXITSTATUS(ending.status))
                    : std::string("it gave no answer"),
       .cause = cause});
}

}  // namespace distwrap::plugin
