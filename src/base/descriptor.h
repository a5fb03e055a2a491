// A file descriptor that is closed with its object, and at once in the child of
// a fork.
//
// Threads: as an int. Ownership: the object owns the descriptor.
#ifndef DISTWRAP_SRC_BASE_DESCRIPTOR_H_
#define DISTWRAP_SRC_BASE_DESCRIPTOR_H_

#include "base/child_closes.h"

#include <unistd.h>
#include <utility>

namespace distwrap::base {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) { ChildCloses::add(fd); }
  ~Descriptor() {
    if (fd_ < 0) return;
    ChildCloses::remove(fd_);
    close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_DESCRIPTOR_H_
