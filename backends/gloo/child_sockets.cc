#include "child_sockets.h"

#include "sdk/descriptor_set.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gloo_backend::child_sockets {
namespace {

// The number of directory entries that are read at a time.
constexpr size_t kMostAtOnce = 256;

constinit dw_sdk::DescriptorSet marked;

// All code below runs in the child, which has one thread. It makes system calls
// only, since other threads of the parent may have held any lock.

// The kernel's form of a directory entry.
struct Entry {
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

int number_of(const char* name) {
  int number = 0;
  for (; *name >= '0' && *name <= '9'; ++name)
    number = number * 10 + *name - '0';
  return *name == '\0' ? number : -1;
}

// Closes all descriptors of a socket, which share one file.
class Closing {
 public:
  Closing()
      : nothing_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
        folder_(open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~Closing() {
    close(nothing_);
    close(folder_);
  }

  void add(int descriptor) {
    struct stat file;
    if (fstat(descriptor, &file) != 0) return;
    files_[n_++] = file.st_ino;
    device_ = file.st_dev;
    take_place_of(descriptor);
    if (n_ == files_.size()) flush();
  }

  void flush() {
    if (n_ == 0) return;
    std::sort(files_.begin(), files_.begin() + n_);
    lseek(folder_, 0, SEEK_SET);
    alignas(Entry) char entries[4096];
    for (long bytes; (bytes = syscall(SYS_getdents64, folder_, entries,
                                      sizeof entries)) > 0;)
      for (long at = 0; at < bytes;) {
        const auto* const entry = reinterpret_cast<const Entry*>(entries + at);
        at += entry->bytes;
        look_at(number_of(entry->name));
      }
    n_ = 0;
  }

 private:
  void look_at(int descriptor) {
    struct stat file;
    if (descriptor >= 0 && fstat(descriptor, &file) == 0 &&
        S_ISSOCK(file.st_mode) && file.st_dev == device_ &&
        std::binary_search(files_.begin(), files_.begin() + n_, file.st_ino))
      take_place_of(descriptor);
  }
  void take_place_of(int descriptor) const {
    if (nothing_ < 0 || dup3(nothing_, descriptor, O_CLOEXEC) < 0)
      close(descriptor);
  }

  const int nothing_, folder_;
  std::array<ino_t, kMostAtOnce> files_;
  size_t n_ = 0;
  dev_t device_ = 0;  // device number of all sockets
};

void let_go() {
  const int before = errno;
  if (marked.empty()) return;
  Closing closing;
  marked.take_all([&](int descriptor) { closing.add(descriptor); });
  closing.flush();
  errno = before;
}

// Registered at load time: a child that is forked while another thread
// registers it would wait for that thread.
[[maybe_unused]] const int kForksWatched =
    pthread_atfork(nullptr, nullptr, let_go);

}  // namespace

void add(int descriptor) { marked.add(descriptor); }

void remove(int descriptor) { marked.remove(descriptor); }

}  // namespace gloo_backend::child_sockets
