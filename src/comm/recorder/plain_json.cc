#include "comm/recorder/plain_json.h"

#include "algo/objects/utf8.h"

#include <errno.h>
#include <unistd.h>

namespace distwrap::comm {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

}  // namespace

void PlainJson::put(char c) {
  if (used_ == sizeof buffer_ && !flush()) return;
  buffer_[used_++] = c;
}

PlainJson& PlainJson::raw(absl::string_view text) {
  for (const char c : text) put(c);
  return *this;
}

PlainJson& PlainJson::number(uint64_t value) {
  char digits[20];
  size_t count = 0;
  do {
    digits[count++] = kDigits[value % 10];
    value /= 10;
  } while (value != 0);
  while (count > 0) put(digits[--count]);
  return *this;
}

PlainJson& PlainJson::number(int64_t value) {
  if (value < 0) put('-');
  // Unsigned, since the negative of the smallest value is no int64_t.
  const auto bits = static_cast<uint64_t>(value);
  return number(value < 0 ? 0 - bits : bits);
}

PlainJson& PlainJson::hex(uint64_t value) {
  put('"');
  for (int shift = 60; shift >= 0; shift -= 4)
    put(kDigits[value >> shift & 15]);
  put('"');
  return *this;
}

PlainJson& PlainJson::text(absl::string_view value) {
  const bool is_text = objects::is_utf8(value);
  put('"');
  for (const char c : value) {
    if (!is_text && (c & 0x80) != 0) {
      put('?');
    } else if (c == '"' || c == '\\') {
      put('\\');
      put(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      raw("\\u00");
      put(kDigits[static_cast<unsigned char>(c) >> 4]);
      put(kDigits[c & 15]);
    } else {
      put(c);
    }
  }
  put('"');
  return *this;
}

bool PlainJson::flush() {
  size_t done = 0;
  while (done < used_ && !failed_) {
    const ssize_t wrote = write(fd_, buffer_ + done, used_ - done);
    if (wrote > 0)
      done += static_cast<size_t>(wrote);
    else if (wrote == 0 || errno != EINTR)
      failed_ = true;
  }
  used_ = 0;
  return !failed_;
}

}  // namespace distwrap::comm
