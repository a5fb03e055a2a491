// Objects as bytes: a head of 16 bytes ("DWOB", version 1, three zeros, number
// of the bytes that follow, little-endian), then one CBOR item.
//
// What has no type of its own in CBOR is tagged. Each object has exactly one
// encoding, and only that is read: what decodes, encodes to the same bytes.
// Threads: any. Ownership: none.
#ifndef DISTWRAP_SRC_ALGO_OBJECTS_CODEC_H_
#define DISTWRAP_SRC_ALGO_OBJECTS_CODEC_H_

#include "distwrap/object.h"

#include <cstdint>
#include <string>

namespace distwrap::objects {

inline constexpr char kMagic[] = "DWOB";
inline constexpr uint8_t kVersion = 1;
inline constexpr size_t kHeadBytes = 16;

inline constexpr uint64_t kTagBig = 2;          // bytes of n
inline constexpr uint64_t kTagNegativeBig = 3;  // bytes of -1 - n
inline constexpr uint64_t kTagTuple = 40000;
inline constexpr uint64_t kTagTensor = 40001;
inline constexpr uint64_t kTagExtension = 40002;

// Appends an object, which with what is in `out` takes at most `max_bytes`.
// `path` is what the error calls the object itself: "[3]", or nothing.
absl::Status append_object(const Object& object, absl::string_view path,
                           uint64_t max_bytes, std::string* out);

// Takes the first of objects that stand behind each other. `offset` is that of
// the first byte, for the error.
absl::StatusOr<Object> take_object(absl::string_view* bytes, size_t offset,
                                   uint64_t max_bytes);

// kObjectDecode.
absl::Status decode_error(absl::string_view what, size_t offset);

}  // namespace distwrap::objects

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_CODEC_H_
