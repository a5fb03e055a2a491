// Element types, devices and streams.
//
// Threads and ownership: plain values.
//
//   distwrap::dtype_size(distwrap::dtype_of<float>);  // 4
//   distwrap::Device second_gpu{.type = 2, .id = 1};
#ifndef DISTWRAP_TYPES_H_
#define DISTWRAP_TYPES_H_

#include "distwrap/export.h"

#include <absl/strings/string_view.h>

#include <cstdint>

namespace distwrap {

// Element types; abi/dtypes.def is the list.
enum class DType : uint8_t {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  enumerator = index,
#include "distwrap/abi/dtypes.def"
};

namespace internal {
inline constexpr uint8_t kDTypeBytes[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) (bits) / 8,
#include "distwrap/abi/dtypes.def"
};
}  // namespace internal

// Bytes of one element.
constexpr int64_t dtype_size(DType dtype) {
  return internal::kDTypeBytes[static_cast<uint8_t>(dtype)];
}

// The place of memory, with DLPack's codes.
struct Device {
  int32_t type = 1;  // 1 cpu, 2 cuda
  int32_t id = 0;
  friend constexpr bool operator==(const Device&, const Device&) = default;
};
inline constexpr Device kCpu{};

// A queue of a device's work, such as a cudaStream_t. Without `native` the
// operation follows the order of the host's calls.
struct Stream {
  Device device = kCpu;
  void* native = nullptr;
  friend constexpr bool operator==(const Stream&, const Stream&) = default;
};

// The name of an element type, for example "f32"; "?" for an unknown value.
DISTWRAP_EXPORT absl::string_view dtype_name(DType dtype);

namespace internal {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kU64;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
}  // namespace internal

// DType of a C++ type: dtype_of<float> is DType::kF32.
template <class T>
inline constexpr DType dtype_of = internal::DTypeOf<T>::value;

}  // namespace distwrap

#endif  // DISTWRAP_TYPES_H_
