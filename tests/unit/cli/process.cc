#include "process.h"

#include "distwrap/deadline.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <errno.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distwrap::cli {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(90);

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++n;
  return n;
}

// This process's environment, with the variables of `set` replaced.
std::vector<std::string> environment(
    const std::map<std::string, std::string>& set) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (set.count(text.substr(0, text.find('='))) == 0) all.push_back(text);
  }
  for (const auto& [name, value] : set) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts)
    all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, const Options& options) {
  int in[2], out[2], err[2];
  EXPECT_EQ(
      pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
  const std::vector<std::string> variables = environment(options.env);
  const std::vector<char*> arguments = pointers(argv),
                           env = pointers(variables);
  pid_ = fork();
  if (pid_ == 0) {
    // Nothing is allocated here: another thread may have held the allocator's
    // lock.
    for (const int number : options.ignored) ::signal(number, SIG_IGN);
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (int fd = 0; options.without_stdio && fd < 3; ++fd) close(fd);
    execve(arguments[0], arguments.data(), env.data());
    _exit(99);
  }
  for (const int fd : {in[0], out[1], err[1]}) close(fd);
  fds_[0] = out[0];
  fds_[1] = err[0];
  // Test inputs are shorter than the capacity of a pipe.
  EXPECT_EQ(write(in[1], options.input.data(), options.input.size()),
            static_cast<ssize_t>(options.input.size()));
  close(in[1]);
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : fds_)
    if (fd >= 0) close(fd);
}

// False when the two outputs ended or nothing came in time.
bool Process::read_some(int timeout_ms) {
  pollfd entries[2] = {{fds_[0], POLLIN, 0}, {fds_[1], POLLIN, 0}};
  if (fds_[0] < 0 && fds_[1] < 0) return false;
  if (poll(entries, 2, timeout_ms) <= 0) return false;
  for (int i = 0; i < 2; ++i) {
    if (entries[i].revents == 0) continue;
    char bytes[65536];
    const ssize_t n = read(fds_[i], bytes, sizeof bytes);
    if (n > 0) {
      text_[i].append(bytes, static_cast<size_t>(n));
    } else {
      close(fds_[i]);
      fds_[i] = -1;
    }
  }
  return true;
}

bool Process::read_until(const std::string& text, int times) {
  const Deadline deadline = Deadline::after(kLimit);
  while (count(out(), text) < times)
    if (!read_some(deadline.remaining_ms())) return false;
  return true;
}

void Process::signal(int number) const { EXPECT_EQ(kill(pid_, number), 0); }

void Process::close_output() {
  close(fds_[0]);
  fds_[0] = -1;
}

int Process::wait() {
  const Deadline deadline = Deadline::after(kLimit);
  while (read_some(deadline.remaining_ms())) {
  }
  // A pidfd becomes readable at the end of the process, so the wait has a
  // limit.
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd entry = {pidfd, POLLIN, 0};
  const bool ended = pidfd < 0 || poll(&entry, 1, deadline.remaining_ms()) > 0;
  // Closed in the same way as opened, without the C library: ThreadSanitizer,
  // which has seen no opening, would mistake it for an earlier descriptor of
  // this number.
  if (pidfd >= 0) syscall(SYS_close, pidfd);
  if (!ended) return -1;
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<pid_t> processes_with(const std::string& name,
                                  const std::string& value) {
  const std::string wanted = absl::StrCat(name, "=", value);
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "environ");
    std::string variable;
    while (std::getline(file, variable, '\0'))
      if (variable == wanted) found.push_back(pid);
  }
  return found;
}

}  // namespace distwrap::cli
