// A process under test: its output, its end, and whether it left anything.
//
// Threads: one. Ownership: kills a process that still runs.
//
//   Process process({"/bin/echo", "hi"}, {});
//   EXPECT_EQ(process.wait(), 0);
//   EXPECT_EQ(process.out(), "hi\n");
#ifndef DISTWRAP_TESTS_UNIT_CLI_PROCESS_H_
#define DISTWRAP_TESTS_UNIT_CLI_PROCESS_H_

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace distwrap::cli {

class Process {
 public:
  struct Options {
    std::map<std::string, std::string> env = {};
    std::string input = {};         // all of its standard input
    std::vector<int> ignored = {};  // signals ignored at its start
    bool without_stdio = false;     // 0, 1 and 2 closed
  };
  Process(const std::vector<std::string>& argv, const Options& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until the standard output contains `text` so many times; false when
  // it ended before, or after 90 s.
  bool read_until(const std::string& text, int times);
  void signal(int number) const;
  // Closes the reading end of the standard output.
  void close_output();
  // Reads to the end; 128 + signal for a killed process, -1 after 90 s.
  int wait();

  pid_t pid() const { return pid_; }
  const std::string& out() const { return text_[0]; }
  const std::string& err() const { return text_[1]; }

 private:
  bool read_some(int timeout_ms);

  pid_t pid_ = -1;
  int fds_[2] = {-1, -1};
  std::string text_[2];
};

// Processes whose environment has NAME=value, zombies not counted.
std::vector<pid_t> processes_with(const std::string& name,
                                  const std::string& value);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TESTS_UNIT_CLI_PROCESS_H_
