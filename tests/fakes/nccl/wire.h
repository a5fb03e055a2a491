// The messages between the fake NCCL of a process and the hub: numbers, and
// bytes with their size, over a socket of this host.
#ifndef DISTWRAP_TESTS_FAKES_NCCL_WIRE_H_
#define DISTWRAP_TESTS_FAKES_NCCL_WIRE_H_

#include "fakes/nccl/clique.h"

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace fakes::nccl {

enum class Ask : uint8_t { kMeet, kRun };

class Writer {
 public:
  template <class T>
  Writer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(const std::string& text) {
    put(uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  // False when the other end has gone.
  bool send(int fd) const;

 private:
  std::string bytes_;
};

class Reader {
 public:
  // The bytes live longer.
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value = {};
    if (at_ + sizeof value <= bytes_.size())
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text() {
    const auto size = get<uint64_t>();
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }

 private:
  const std::string_view bytes_;
  size_t at_ = 0;
};

// One message; false when the other end has gone.
bool receive(int fd, std::string* bytes);

// The bytes that a rank of `n` brings to a call, and those that it gets.
size_t bytes_in(const Part& part, int rank, int n);
size_t bytes_out(const Part& part, int rank, int n);

// A part without its memory, and with the bytes of its input.
void put_part(const Part& part, const std::string& in, Writer* to);
Part get_part(Reader* from, std::string* in);

}  // namespace fakes::nccl

#endif  // DISTWRAP_TESTS_FAKES_NCCL_WIRE_H_
