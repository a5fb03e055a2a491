// Encodes and decodes single CBOR items (RFC 8949) with libcbor; no other file
// includes libcbor.
//
// Every item has one valid encoding, the shortest; the reader accepts no other.
// Threads: one at a time. Ownership: the reader borrows its bytes.
#ifndef DISTWRAP_SRC_ALGO_OBJECTS_CBOR_H_
#define DISTWRAP_SRC_ALGO_OBJECTS_CBOR_H_

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace distwrap::objects {

enum class CborType : uint8_t {
  kUnsigned,  // number
  kNegative,  // -1 - number
  kBytes,     // bytes of `data`
  kText,      // text of `data`
  kArray,     // number of items, which follow
  kMap,       // number of pairs, which follow
  kTag,       // number; one item follows
  kNull,
  kBool,  // number
  kFloat,
};

struct CborItem {
  CborType type = CborType::kNull;
  uint64_t number = 0;
  double real = 0;
  absl::string_view data = {};
};

class CborReader {
 public:
  explicit CborReader(absl::string_view bytes) : bytes_(bytes) {}

  // Reads the next item, without the items inside it. False when no known,
  // complete item in its shortest encoding follows; `problem` then has the
  // reason and `offset` the place.
  bool next(CborItem* item);

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }
  const char* problem() const { return problem_; }

 private:
  const absl::string_view bytes_;
  size_t offset_ = 0;
  const char* problem_ = nullptr;
};

// Append one item.
void write_unsigned(uint64_t number, std::string* out);
void write_negative(uint64_t number, std::string* out);  // -1 - number
void write_bytes(absl::string_view data, std::string* out);
void write_text(absl::string_view data, std::string* out);
void write_array(uint64_t items, std::string* out);
void write_map(uint64_t pairs, std::string* out);
void write_tag(uint64_t tag, std::string* out);
void write_null(std::string* out);
void write_bool(bool value, std::string* out);
void write_float(double value, std::string* out);

}  // namespace distwrap::objects

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_CBOR_H_
