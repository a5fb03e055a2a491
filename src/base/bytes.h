// Reading and writing of little-endian bytes within bounds: the only way in
// which the core reads lengths and numbers from a peer or a file.
//
// Threads: one at a time. Ownership: the reader borrows its bytes.
//
//   ByteReader in(frame);
//   uint32_t n = in.u32();
//   absl::string_view name = in.text(kMaxName);
//   if (!in.ok()) return refuse();   // any step that did not fit
#ifndef DISTWRAP_SRC_BASE_BYTES_H_
#define DISTWRAP_SRC_BASE_BYTES_H_

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace distwrap::base {

// Reads from the front. A step that does not fit returns zero or an empty text,
// and so do all later steps; `ok` reports it.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : rest_(bytes) {}

  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  int64_t i64() { return static_cast<int64_t>(number(8)); }
  // Reads exactly `size` bytes.
  absl::string_view bytes(size_t size);
  // Reads a u32 length of at most `limit`, then that many bytes.
  absl::string_view text(size_t limit);

  size_t left() const { return rest_.size(); }
  bool ok() const { return ok_; }
  // Whether everything was read without an error.
  bool done() const { return ok_ && rest_.empty(); }

 private:
  uint64_t number(size_t size);

  absl::string_view rest_;
  bool ok_ = true;
};

class ByteWriter {
 public:
  void u8(uint8_t value) { number(value, 1); }
  void u16(uint16_t value) { number(value, 2); }
  void u32(uint32_t value) { number(value, 4); }
  void u64(uint64_t value) { number(value, 8); }
  void i64(int64_t value) { number(static_cast<uint64_t>(value), 8); }
  void bytes(absl::string_view value) {
    out_.append(value.data(), value.size());
  }
  // Writes a u32 length, then the bytes.
  void text(absl::string_view value);

  const std::string& str() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  void number(uint64_t value, size_t size);

  std::string out_;
};

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_BYTES_H_
