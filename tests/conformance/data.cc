#include "data.h"

#include <algorithm>
#include <bit>

namespace distwrap::conformance {
namespace {

template <typename T>
void append(T number, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint16_t half(int number) {
  if (number == 0) return 0;
  const unsigned sign = number < 0 ? 0x8000 : 0;
  const unsigned size = static_cast<unsigned>(number < 0 ? -number : number);
  const unsigned exponent = static_cast<unsigned>(std::bit_width(size)) - 1;
  return static_cast<uint16_t>(sign | (exponent + 15) << 10 |
                               ((size << (10 - exponent)) & 0x3ff));
}

uint16_t brain(int number) {
  return static_cast<uint16_t>(
      std::bit_cast<uint32_t>(static_cast<float>(number)) >> 16);
}

bool has_sign(int dtype_index) {
  switch (dtype_index) {
    case DW_DTYPE_U8:
    case DW_DTYPE_U16:
    case DW_DTYPE_U32:
    case DW_DTYPE_U64:
    case DW_DTYPE_BOOL:
      return false;
    default:
      return true;
  }
}

}  // namespace

int value_at(int dtype_index, int rank, size_t position) {
  uint64_t x =
      static_cast<uint64_t>(rank + 1) * UINT64_C(0x9e3779b97f4a7c15) + position;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  const int number = static_cast<int>((x >> 40) % 15);
  if (dtype_index == DW_DTYPE_BOOL) return number % 2;
  return has_sign(dtype_index) ? number - 7 : number;
}

void append_number(int dtype_index, int number, std::string& bytes) {
  if (dtype_index == DW_DTYPE_F16) return append(half(number), bytes);
  if (dtype_index == DW_DTYPE_BF16) return append(brain(number), bytes);
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  if (dtype_index == index) return append(static_cast<storage>(number), bytes);
#include "distwrap/abi/dtypes.def"
}

std::string values(int dtype_index, int rank, size_t begin, size_t count) {
  std::string bytes;
  for (size_t i = begin; i < begin + count; ++i)
    append_number(dtype_index, value_at(dtype_index, rank, i), bytes);
  return bytes;
}

std::string reduced(int dtype_index, uint16_t reduce, int ranks, size_t begin,
                    size_t count) {
  std::string bytes;
  for (size_t i = begin; i < begin + count; ++i) {
    int result = value_at(dtype_index, 0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      const int next = value_at(dtype_index, rank, i);
      switch (reduce) {
        case DW_REDUCE_MIN:
          result = std::min(result, next);
          break;
        case DW_REDUCE_MAX:
          result = std::max(result, next);
          break;
        case DW_REDUCE_BAND:
          result &= next;
          break;
        case DW_REDUCE_BOR:
          result |= next;
          break;
        case DW_REDUCE_BXOR:
          result ^= next;
          break;
        default:
          result += next;
      }
    }
    append_number(dtype_index, result, bytes);
  }
  return bytes;
}

GuardedBytes::GuardedBytes(size_t size)
    : size_(size), memory_(size + 2 * kGuard, kGuardByte) {
  std::fill_n(data(), size, kSentinel);
}

void GuardedBytes::put(size_t offset, const std::string& bytes) {
  std::copy(bytes.begin(), bytes.end(), data() + offset);
}

std::string GuardedBytes::get(size_t offset, size_t size) const {
  return std::string(memory_.data() + kGuard + offset, size);
}

bool GuardedBytes::guards_intact() const {
  const auto intact = [](char byte) { return byte == kGuardByte; };
  return std::all_of(memory_.begin(), memory_.begin() + kGuard, intact) &&
         std::all_of(memory_.end() - kGuard, memory_.end(), intact);
}

}  // namespace distwrap::conformance
