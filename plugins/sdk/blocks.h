// Copies the bytes of blocks (distwrap/abi/blocks.h), which count in the order
// of their runs.
//
//   dw_sdk::gather(packed, base, block, begin, end, memcpy);
#ifndef DISTWRAP_PLUGINS_SDK_BLOCKS_H_
#define DISTWRAP_PLUGINS_SDK_BLOCKS_H_

#include "distwrap/abi/blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dw_sdk {

inline constexpr dw_str kBlocksId = {DW_EXT_BLOCKS, sizeof DW_EXT_BLOCKS - 1};

// Sets the bytes of a block, and the offset behind its last one. False: they
// are beyond all memory, or an extent is 0.
inline bool measure(const dw_block& block, uint64_t* bytes, uint64_t* end) {
  constexpr uint64_t kMost = UINT64_C(1) << 62;
  uint64_t all = block.run, last = 0;
  for (int d = 0; d < 3; ++d) {
    uint64_t reach;
    if (block.extents[d] == 0 ||
        __builtin_mul_overflow(all, block.extents[d], &all) ||
        __builtin_mul_overflow(block.strides[d], block.extents[d] - 1,
                               &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  if (__builtin_add_overflow(last, block.run, &last) ||
      __builtin_add_overflow(last, block.begin, &last) || last > kMost)
    return false;
  *bytes = all;
  *end = last;
  return true;
}

// A place in a block, which moves on byte by byte or by whole runs.
class BlockCursor {
 public:
  BlockCursor(const dw_block& block, uint64_t at) : block_(block) {
    within_ = at % block.run;
    uint64_t number = at / block.run;
    for (int d = 2; d >= 0; --d) {
      index_[d] = number % block.extents[d];
      number /= block.extents[d];
    }
    place();
  }
  // The offset of the next byte, and how many follow it in its run.
  uint64_t offset() const { return offset_; }
  uint64_t left() const { return block_.run - within_; }
  // By at most as many bytes as are left.
  void pass(uint64_t bytes) {
    within_ += bytes;
    offset_ += bytes;
    if (within_ != block_.run) return;
    within_ = 0;
    for (int d = 2; d >= 0; --d) {
      if (++index_[d] != block_.extents[d]) break;
      index_[d] = 0;
    }
    place();
  }

 private:
  void place() {
    offset_ = block_.begin + within_;
    for (int d = 0; d < 3; ++d) offset_ += index_[d] * block_.strides[d];
  }

  const dw_block& block_;
  uint64_t index_[3] = {}, within_ = 0, offset_ = 0;
};

// Copy the bytes from `begin` to `end` of a block to packed memory, from it, or
// to the same bytes of another block. `copy(to, from, bytes)`.
template <class Copy>
void gather(char* packed, const char* base, const dw_block& block,
            uint64_t begin, uint64_t end, const Copy& copy) {
  if (begin == end) return;
  BlockCursor at(block, begin);
  while (begin < end) {
    const uint64_t some = std::min(at.left(), end - begin);
    copy(packed, base + at.offset(), static_cast<size_t>(some));
    packed += some;
    begin += some;
    at.pass(some);
  }
}
template <class Copy>
void scatter(char* base, const dw_block& block, const char* packed,
             uint64_t begin, uint64_t end, const Copy& copy) {
  if (begin == end) return;
  BlockCursor at(block, begin);
  while (begin < end) {
    const uint64_t some = std::min(at.left(), end - begin);
    copy(base + at.offset(), packed, static_cast<size_t>(some));
    packed += some;
    begin += some;
    at.pass(some);
  }
}
template <class Copy>
void move_block(char* to_base, const dw_block& to, const char* from_base,
                const dw_block& from, uint64_t begin, uint64_t end,
                const Copy& copy) {
  if (begin == end) return;
  BlockCursor there(to, begin), here(from, begin);
  while (begin < end) {
    const uint64_t some = std::min({there.left(), here.left(), end - begin});
    copy(to_base + there.offset(), from_base + here.offset(),
         static_cast<size_t>(some));
    begin += some;
    there.pass(some);
    here.pass(some);
  }
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_BLOCKS_H_
