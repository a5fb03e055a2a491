#include "bell.h"

#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace ucx_backend {

Bell::Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Bell::~Bell() {
  if (fd_ >= 0) close(fd_);
}

void Bell::ring() const {
  const uint64_t one = 1;
  // A write to an eventfd that is full fails, but the bell has rung already.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

void Bell::sleep(int fd, int most_ms) const {
  // poll ignores negative descriptors.
  pollfd fds[] = {{fd_, POLLIN, 0}, {fd, POLLIN, 0}};
  if (!works()) most_ms = 1;
  poll(fds, 2, most_ms);
  uint64_t rung;
  if ((fds[0].revents & POLLIN) != 0) {
    [[maybe_unused]] const ssize_t n = read(fd_, &rung, sizeof rung);
  }
}

}  // namespace ucx_backend
