#include "chaos/freezer.h"

#include <csignal>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace distwrap::chaos {
namespace {

struct Kind {
  const char* root;
  const char *file, *on, *off;
};
constexpr Kind kKinds[] = {
    {"/sys/fs/cgroup/freezer", "/freezer.state", "FROZEN", "THAWED"},
    {"/sys/fs/cgroup", "/cgroup.freeze", "1", "0"},
    {"/sys/fs/cgroup/unified", "/cgroup.freeze", "1", "0"}};

bool write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

}  // namespace

Freezer::Freezer(pid_t pid) {
  for (const Kind& kind : kKinds) {
    const std::string folder =
        kind.root + ("/chaos-" + std::to_string(getpid()));
    if (mkdir(folder.c_str(), 0700) != 0) continue;
    const std::string file = folder + kind.file;
    if (access(file.c_str(), W_OK) == 0 &&
        write(folder + "/cgroup.procs", std::to_string(pid))) {
      folder_ = folder;
      file_ = file;
      on_ = kind.on;
      off_ = kind.off;
      return;
    }
    rmdir(folder.c_str());
  }
}

Freezer::~Freezer() {
  if (!works()) return;
  go_on();
  // The control group is empty a moment after its process has ended.
  for (int i = 0; i < 1000 && rmdir(folder_.c_str()) != 0; ++i) usleep(1000);
}

void Freezer::stop() const { write(file_, on_); }

void Freezer::go_on() const { write(file_, off_); }

}  // namespace distwrap::chaos
