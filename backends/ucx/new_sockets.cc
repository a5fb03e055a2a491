#include "new_sockets.h"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>

namespace ucx_backend {
namespace {

template <class Visit>
void visit_sockets(const Visit& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"),
                                                   &closedir);
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const int number = std::atoi(entry->d_name);
    struct stat status;
    if (fstat(number, &status) == 0 && S_ISSOCK(status.st_mode)) visit(number);
  }
}

}  // namespace

NewSockets::NewSockets() {
  visit_sockets([this](int number) { before_.push_back(number); });
  std::sort(before_.begin(), before_.end());
}

NewSockets::~NewSockets() {
  visit_sockets([this](int number) {
    if (!std::binary_search(before_.begin(), before_.end(), number))
      fcntl(number, F_SETFD, FD_CLOEXEC);
  });
}

}  // namespace ucx_backend
