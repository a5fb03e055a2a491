// The encoding of objects: a head of 16 bytes ("DWOB", version 1, three zeros,
// number of the following bytes, little-endian), then one CBOR item.
//
// Kinds without a CBOR type of their own are tagged. Each object has exactly
// one encoding, and the decoder accepts no other: decoded bytes encode to the
// same bytes.
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

// Appends an object, so that `out` has at most `max_bytes` afterwards. `path`
// is the object's own name in errors: "[3]", or empty.
absl::Status append_object(const Object& object, absl::string_view path,
                           uint64_t max_bytes, std::string* out);

// Decodes the first of several adjacent objects. `offset` is that of the first
// byte, for errors.
absl::StatusOr<Object> take_object(absl::string_view* bytes, size_t offset,
                                   uint64_t max_bytes);

// Makes a kObjectDecode.
absl::Status decode_error(absl::string_view what, size_t offset);

}  // namespace distwrap::objects

#endif  // DISTWRAP_SRC_ALGO_OBJECTS_CODEC_H_
