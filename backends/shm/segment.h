// Memory of several processes: a sealed memfd, mapped.
//
// Ownership: a Segment owns its descriptor and its mapping; nothing has a name,
// so nothing is left when the last process has gone.
#ifndef DISTWRAP_BACKENDS_SHM_SEGMENT_H_
#define DISTWRAP_BACKENDS_SHM_SEGMENT_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shm_backend {

// A descriptor that is closed.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
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

class Segment {
 public:
  Segment() = default;
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Of that many bytes, of which none is there yet; `most` of them are mapped.
  int32_t create(size_t bytes, dw_error* error, size_t most = SIZE_MAX);
  // Another process's; its seals are checked.
  int32_t adopt(Descriptor fd, dw_error* error, size_t most = SIZE_MAX);
  // Another part of it, mapped where there is room: the caller's to unmap.
  int32_t map_part(size_t at, size_t bytes, char** data, dw_error* error) const;

  // Makes a part really there: touching it cannot fail afterwards. An error
  // says how much there was.
  int32_t reserve(size_t at, size_t bytes, dw_error* error) {
    return reserve(at, bytes, data_ + at, error);
  }
  // The same of a part that is mapped at `data`.
  int32_t reserve(size_t at, size_t bytes, char* data, dw_error* error) const;
  // Gives the memory of a part back to the kernel: it is zero, and a hole.
  void give_back(size_t at, size_t bytes) const;

  // Up to where, from `at` on and at most to `end`, everything is there. The
  // kernel's word, which no other process can forge.
  size_t there(size_t at, size_t end) const;

  int fd() const { return fd_.get(); }
  size_t bytes() const { return bytes_; }
  char* data() const { return data_; }

 private:
  int32_t map(size_t most, dw_error* error);

  Descriptor fd_;
  size_t bytes_ = 0, mapped_ = 0;
  char* data_ = nullptr;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_SEGMENT_H_
