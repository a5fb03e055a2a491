// The messages between the ranks of a window.
//
// Each ordered pair of ranks has one stream of messages, which are processed
// strictly in order. A stream consists of frames of one size, so that the
// receive of the next frame can be posted in advance; data that do not fit into
// a frame follow it in segments.
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
  kData,   // bytes of a request's result; the reply follows
  kReply,  // ends a request
};

struct FrameHeader {
  uint64_t window;   // uid of the window
  uint64_t request;  // number for the reply; 0: no reply is wanted
  uint64_t offset;   // offset in the target's part
  uint64_t bytes;    // bytes of data, in this frame or behind it
  uint64_t wanted;   // bytes of the result
  uint64_t value;    // operand of the signal
  uint32_t signal;
  int32_t code;  // result code of a reply
  What what;
  uint16_t reduce;
  uint16_t signal_how;  // 0: no signal
  uint8_t dtype_code, dtype_bits;

  dw_dtype dtype() const { return {dtype_code, dtype_bits, 1}; }
  uint64_t element() const { return dtype_bits / 8u; }

  // Whether the sizes are consistent for a part of this many bytes. A faulty
  // peer must not write beyond this rank's memory.
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
static_assert(sizeof(FrameHeader) == 64);

struct alignas(64) Frame {
  static constexpr uint64_t kData = 448;
  FrameHeader head;
  char data[kData];

  bool holds_all() const { return head.bytes <= kData; }
};
static_assert(sizeof(Frame) == 512);

inline constexpr uint64_t kSegment = uint64_t{256} << 10;
inline uint64_t segment_at(uint64_t begin, uint64_t bytes) {
  return std::min(kSegment, bytes - begin);
}

// The communicator is used for windows only, so any tags are free.
inline constexpr uint64_t kFrameTag = DW_TAG(DW_TAG_CLASS_COMPOSED, 0);
inline constexpr uint64_t kSegmentTag = DW_TAG(DW_TAG_CLASS_COMPOSED, 1);

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_FRAME_H_
