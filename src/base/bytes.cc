#include "base/bytes.h"

namespace distwrap::base {

uint64_t ByteReader::number(size_t size) {
  const absl::string_view from = bytes(size);
  uint64_t value = 0;
  for (size_t i = from.size(); i-- > 0;)
    value = value << 8 | static_cast<uint8_t>(from[i]);
  return value;
}

absl::string_view ByteReader::bytes(size_t size) {
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  const absl::string_view result = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return result;
}

absl::string_view ByteReader::text(size_t limit) {
  const uint32_t size = u32();
  if (size > limit) ok_ = false;
  return bytes(size);
}

void ByteWriter::number(uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i, value >>= 8)
    out_.push_back(static_cast<char>(value & 0xff));
}

void ByteWriter::text(absl::string_view value) {
  u32(static_cast<uint32_t>(value.size()));
  bytes(value);
}

}  // namespace distwrap::base
