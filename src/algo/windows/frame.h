// What the ranks of a window send each other.
//
// From each rank to each other goes one stream of messages, taken strictly in
// order: frames of one size, so that a receive for the next can be posted
// before it is known, and behind a frame with more bytes than fit into it those
// bytes, in segments.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_FRAME_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_FRAME_H_

#include "distwrap/abi/types.h"

#include <algorithm>
#include <cstdint>

namespace distwrap::algo::windows {

enum class What : uint16_t {
  kPut = 1,
  kAccumulate,
  kFetchOp,
  kCompareSwap,
  kGet,
  kSignal,
  kFlush,
  kClose,  // the sender has ended the window
  kData,   // bytes of a request's result; its reply follows
  kReply,  // ends a request
};

struct Head {
  uint64_t window;   // its uid
  uint64_t request;  // what the reply will name; 0: none is wanted
  uint64_t offset;   // in the target's part
  uint64_t bytes;    // of data, in this frame or behind it
  uint64_t wanted;   // of the result
  uint64_t value;    // of the signal
  uint32_t signal;
  int32_t code;  // of a reply
  What what;
  uint16_t reduce;
  uint16_t signal_how;  // 0: no signal
  uint8_t dtype_code, dtype_bits;

  dw_dtype dtype() const { return {dtype_code, dtype_bits, 1}; }
  uint64_t element() const { return dtype_bits / 8u; }

  // Whether the sizes of what is for a part of so many bytes belong together:
  // a peer with a fault must not write beyond what this rank has.
  bool is_sound(uint64_t part) const {
    switch (what) {
      case What::kGet:
        return wanted <= part && bytes == 0;
      case What::kFetchOp:
        return wanted <= part && bytes == wanted && element() != 0;
      case What::kCompareSwap:
        return wanted == element() && bytes == 2 * wanted && wanted != 0;
      default:
        return wanted == 0;
    }
  }
};
static_assert(sizeof(Head) == 64);

struct alignas(64) Frame {
  static constexpr uint64_t kData = 448;
  Head head;
  char data[kData];

  bool holds_all() const { return head.bytes <= kData; }
};
static_assert(sizeof(Frame) == 512);

inline constexpr uint64_t kSegment = uint64_t{256} << 10;
inline uint64_t segment_at(uint64_t begin, uint64_t bytes) {
  return std::min(kSegment, bytes - begin);
}

// The communicator is the window's own, so any tags will do.
inline constexpr uint64_t kFrameTag = DW_TAG(DW_TAG_CLASS_COMPOSED, 0);
inline constexpr uint64_t kSegmentTag = DW_TAG(DW_TAG_CLASS_COMPOSED, 1);

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_FRAME_H_
