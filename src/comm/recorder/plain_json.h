// Writes JSON to a descriptor with nothing but write(2): it may run in a signal
// handler, and while any lock is held.
//
// Threads: as a plain object.
#ifndef DISTWRAP_SRC_COMM_RECORDER_PLAIN_JSON_H_
#define DISTWRAP_SRC_COMM_RECORDER_PLAIN_JSON_H_

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>

namespace distwrap::comm {

class PlainJson {
 public:
  explicit PlainJson(int fd) : fd_(fd) {}

  // Writes the text unchanged: braces, commas, names of members with their
  // quotes.
  PlainJson& raw(absl::string_view text);
  PlainJson& number(int64_t value);
  PlainJson& number(uint64_t value);
  // 16 hexadecimal digits in quotes: JSON's numbers end at 2^53.
  PlainJson& hex(uint64_t value);
  // Writes a string in quotes, escaped. If it is not valid UTF-8, bytes beyond
  // ASCII become '?'.
  PlainJson& text(absl::string_view value);
  // False when something could not be written; errno tells why.
  bool flush();

 private:
  void put(char c);

  const int fd_;
  bool failed_ = false;
  size_t used_ = 0;
  char buffer_[4096];
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_RECORDER_PLAIN_JSON_H_
