// Runs a program as a job on several hosts, which are network namespaces of
// this machine, for measurements:
//
//   on_hosts HOSTS RANKS PROGRAM [WORD]...
//
// RANKS is the number on each host; `distwrap run` starts them there. The
// address of host N at the bridge is 10.77.0.<N + 1>, on the interface eth0.
// The exit code is the largest of the nodes', 77 without network namespaces.
#include "hosts/hosts.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace distwrap::hosts_test {
namespace {

constexpr int kUsage = 2, kSkipped = 77;

// Starts the words with this process's output.
pid_t start(const Words& words) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  std::perror(argv[0]);
  _exit(127);
}

int run(int number, const std::string& ranks, const Words& program) {
  const Hosts hosts(number);
  char folder[] = "/tmp/distwrap_hosts_XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    std::perror("mkdtemp");
    return 1;
  }
  const std::string key = std::string(folder) + "/job.key";
  int code = 0;
  if (waitpid(start({DISTWRAP_TOOL, "run", "--make-key", key}), &code, 0) < 0 ||
      code != 0)
    return 1;
  setenv("DISTWRAP_JOB_KEY", ("file:" + key).c_str(), 1);
  std::vector<pid_t> nodes;
  for (int host = 0; host < number; ++host) {
    // Each host has a folder of its own, as machines have.
    const std::string own = std::string(folder) + "/" + Hosts::name(host);
    mkdir(own.c_str(), 0700);
    setenv("DISTWRAP_RUN_DIR", own.c_str(), 1);
    Words words = {DISTWRAP_TOOL, "run",
                   "--nnodes",    std::to_string(number),
                   "--node-rank", std::to_string(host),
                   "--rdzv",      Hosts::address(0) + ":29500",
                   "--output",    "raw",
                   "-n",          ranks,
                   "--"};
    words.insert(words.end(), program.begin(), program.end());
    nodes.push_back(start(hosts.words(host, words)));
  }
  int largest = 0;
  for (const pid_t node : nodes) {
    waitpid(node, &code, 0);
    largest = std::max(
        largest, WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code));
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return largest;
}

}  // namespace
}  // namespace distwrap::hosts_test

int main(int argc, char** argv) {
  using namespace distwrap::hosts_test;
  int hosts = 0;
  if (argc < 4 || !absl::SimpleAtoi(argv[1], &hosts) || hosts < 2 ||
      hosts > 200) {
    std::fprintf(stderr, "usage: on_hosts HOSTS RANKS PROGRAM [WORD]...\n");
    return kUsage;
  }
  if (const std::string why = Hosts::why_not(); !why.empty()) {
    std::fprintf(stderr, "on_hosts: skipped: %s\n", why.c_str());
    return kSkipped;
  }
  return run(hosts, argv[2], Words(argv + 3, argv + argc));
}
