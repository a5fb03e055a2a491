// A progress line on stderr that overwrites itself, when stderr is a terminal.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_PROGRESS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_PROGRESS_H_

#include <cstdio>
#include <string>
#include <unistd.h>

namespace distwrap::bench {

class Progress {
 public:
  Progress() : on_(isatty(STDERR_FILENO) == 1) {}
  void show(const std::string& text) const {
    if (on_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }
  void clear() const { show(""); }

 private:
  bool on_;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_PROGRESS_H_
