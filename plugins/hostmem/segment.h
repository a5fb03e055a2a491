// Memory of several processes: a sealed memfd, mapped.
//
// Ownership: a Segment owns its descriptor and its mapping; nothing has a name,
// so nothing is left when the last process has gone.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_SEGMENT_H_
#define DISTWRAP_PLUGINS_HOSTMEM_SEGMENT_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace dw_hostmem {

// A file descriptor that its owner closes.
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

// A descriptor of a process of this user, opened anew; not open when the kernel
// refuses that. Its number may have come to stand for another file.
Descriptor descriptor_of(int64_t process, int fd);

class Segment {
 public:
  // `backend`: the name that begins its errors.
  explicit Segment(const char* backend) : backend_(backend) {}
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Makes a memfd of `bytes` bytes, none reserved yet, and maps the first
  // `most`.
  int32_t create(size_t bytes, dw_error* error, size_t most = SIZE_MAX);
  // Takes over another process's memfd and checks its seals.
  int32_t adopt(Descriptor fd, dw_error* error, size_t most = SIZE_MAX);
  // Maps another part anywhere; the caller unmaps it.
  int32_t map_part(size_t at, size_t bytes, char** data, dw_error* error) const;

  // Closes the descriptor. The mapping stays, and nothing is reserved any more.
  void close_descriptor() { fd_ = Descriptor(); }

  // Reserves memory for a part, so that no later access can fail. The error
  // says how much was available.
  int32_t reserve(size_t at, size_t bytes, dw_error* error) {
    return reserve(at, bytes, data_ + at, error);
  }
  // Reserves a part that is mapped at `data`.
  int32_t reserve(size_t at, size_t bytes, char* data, dw_error* error) const;
  // Gives memory of a part back to the kernel; the part then reads as zeros.
  void give_back(size_t at, size_t bytes) const;

  // The offset, at most `end`, up to which all memory from `at` on is reserved.
  // The kernel answers, so no other process can forge it.
  size_t there(size_t at, size_t end) const;

  int fd() const { return fd_.get(); }
  size_t bytes() const { return bytes_; }
  char* data() const { return data_; }

 private:
  int32_t map(size_t most, dw_error* error);
  int32_t fail_system(dw_error* error, const char* what, int cause) const;

  const char* const backend_;
  Descriptor fd_;
  size_t bytes_ = 0, mapped_ = 0;
  char* data_ = nullptr;
};

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_SEGMENT_H_
