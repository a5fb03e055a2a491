// The rules that a call on a window must keep before anything is sent. As in
// op_check.h: the check gives a number, the text of a bad call is made apart.
#ifndef DISTWRAP_SRC_COMM_WINDOW_CHECK_H_
#define DISTWRAP_SRC_COMM_WINDOW_CHECK_H_

#include "comm/capabilities.h"
#include "comm/op_check.h"
#include "distwrap/reduce_op.h"
#include "distwrap/status.h"
#include "distwrap/tensor_view.h"

#include <absl/types/span.h>

#include <cstdint>

namespace distwrap::comm {

// One rank's part of a window, as every rank knows it.
struct WindowPart {
  int64_t count = 0;  // elements
  int64_t bytes = 0;
  DType dtype = DType::kU8;
  uint8_t misaligned = 0;  // address of the part modulo 8
};

// The arguments of a call; the kind of operation is passed separately.
struct WindowCall {
  TensorView in = {}, out = {};
  int target = -1;
  int64_t offset = 0;  // elements of the target's part
  uint16_t reduce = DW_REDUCE_NONE;
  bool with_signal = false;
  int64_t signal = 0;  // index, or kPairSignal
  uint64_t value = 0;
  uint16_t how = 0, compare = 0;
};
inline constexpr int64_t kPairSignal = -1;

// The caller's rank and the window that is called.
struct WindowPlace {
  absl::Span<const WindowPart> parts;  // by rank
  int rank = 0;
  uint64_t signals = 0;
  const Capabilities& capabilities;
};

enum class WindowFault : uint8_t {
  kNone,
  kBuffer,  // a view alone; `buffer` says which
  kTarget,
  kNegativeOffset,
  kBeyond,
  kDTypesDiffer,
  kMisaligned,
  kUnsupported,
  kCounts,
  kOverlap,
  kSignal,
  kHow,
  kCompare,
  kReduction,
};

struct CheckedWindowCall {
  WindowFault fault = WindowFault::kNone;
  Fault buffer = Fault::kNone;
  uint64_t offset_bytes = 0;
};

CheckedWindowCall check_window_call(uint16_t kind, const WindowCall& call,
                                    const WindowPlace& place);

// The error of a fault; the caller adds who.
ErrorInfo describe_window_fault(const CheckedWindowCall& checked, uint16_t kind,
                                const WindowCall& call,
                                const WindowPlace& place,
                                absl::string_view backend);

// ---- the check of a move, inlined ----

// Checks put, get, accumulate and fetch_op: elements of `view`, as many bytes
// as they are, at the target's `offset`.
[[gnu::always_inline]] inline CheckedWindowCall check_window_move(
    uint16_t kind, const TensorView& view, op_check::Use use,
    const WindowCall& call, const WindowPlace& place) {
  op_check::Range range;
  if (const Fault fault = op_check::check_buffer(
          view, use, place.capabilities.memory(), &range);
      fault != Fault::kNone) [[unlikely]]
    return {WindowFault::kBuffer, fault};
  if (static_cast<size_t>(call.target) >= place.parts.size()) [[unlikely]]
    return {WindowFault::kTarget};
  const WindowPart& part = place.parts[static_cast<size_t>(call.target)];
  // A part of bytes takes any type.
  if (view.dtype() != part.dtype &&
      (part.dtype != DType::kU8 || (kind != DW_OP_PUT && kind != DW_OP_GET)))
      [[unlikely]]
    return {WindowFault::kDTypesDiffer};
  if (call.offset < 0) [[unlikely]]
    return {WindowFault::kNegativeOffset};
  const auto bytes = static_cast<int64_t>(range.end - range.begin);
  if (call.offset > part.count) [[unlikely]]
    return {WindowFault::kBeyond};
  const int64_t at = call.offset * dtype_size(part.dtype);
  if (bytes > part.bytes - at) [[unlikely]]
    return {WindowFault::kBeyond};
  if (!place.capabilities.supports(kind, view.dtype(), call.reduce))
      [[unlikely]]
    return {WindowFault::kUnsupported};
  return {WindowFault::kNone, Fault::kNone, static_cast<uint64_t>(at)};
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_WINDOW_CHECK_H_
