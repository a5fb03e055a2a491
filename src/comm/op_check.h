// The rules that a call must keep before anything is sent.
//
// The check itself returns a number, so that a good call pays a few compares;
// the text of a bad one is made apart.
#ifndef DISTWRAP_SRC_COMM_OP_CHECK_H_
#define DISTWRAP_SRC_COMM_OP_CHECK_H_

#include "comm/capabilities.h"
#include "distwrap/status.h"
#include "distwrap/tensor_view.h"

#include <absl/status/status.h>

#include <cstdint>

namespace distwrap::comm {

// A call as its caller wrote it; which operation is said beside it.
struct Call {
  uint16_t reduce = DW_REDUCE_NONE;
  TensorView out = {}, in = {};
  int peer = -1;
  int64_t tag = 0;
};

enum class Fault : uint8_t {
  kNone,
  kUnknownDType,
  kDTypesDiffer,
  kNotHostMemory,
  kUnknownReduction,
  kUnsupported,
  kNegativeCount,
  kSizeOverflow,
  kNullBuffer,
  kCountsDisagree,
  kNotDivisible,
  kOverlap,
  kRootOutOfRange,
  kPeerOutOfRange,
  kPeerIsSelf,
  kTagOutOfRange,
};

struct CheckedCall {
  Fault fault = Fault::kNone;
  bool in_place = false;
};

// `rank` and `size` of the group that makes the call. Inline, below: the kind
// is a constant, so that most of it folds away.
template <uint16_t kKind>
CheckedCall check_call(const Call& call, int rank, int size,
                       const Capabilities& capabilities);

// The error of a fault, with reason, what, expected, actual and next step; the
// caller adds who.
ErrorInfo describe_fault(Fault fault, uint16_t kind, const Call& call, int rank,
                         int size, absl::string_view backend,
                         const Capabilities& capabilities);

// ---- the check itself ----

namespace op_check {

inline constexpr int64_t kMaxTag = (int64_t{1} << 31) - 1;

// Elements this rank must hold per element of n; 0: no buffer here.
[[gnu::always_inline]] constexpr int64_t unit(Extent extent, bool is_root,
                                              int size) {
  switch (extent) {
    case Extent::NONE:
      return 0;
    case Extent::ALL:
      return 1;
    case Extent::ALL_R:
      return size;
    case Extent::ROOT:
      return is_root ? 1 : 0;
    case Extent::ROOT_R:
      return is_root ? size : 0;
  }
  return 0;
}

struct Range {
  uintptr_t begin = 0, end = 0;
};

// Faults of one buffer alone; on success its addresses.
[[gnu::always_inline]] inline Fault check_buffer(const TensorView& view,
                                                 Range* range) {
  if (static_cast<uint8_t>(view.dtype()) >= kDTypes)
    return Fault::kUnknownDType;
  if (view.device().type != DW_DEVICE_CPU) return Fault::kNotHostMemory;
  if (view.count() < 0) return Fault::kNegativeCount;
  int64_t bytes;
  if (__builtin_mul_overflow(view.count(), dtype_size(view.dtype()), &bytes))
    return Fault::kSizeOverflow;
  if (view.data() == nullptr && view.count() > 0) return Fault::kNullBuffer;
  range->begin = reinterpret_cast<uintptr_t>(view.data());
  if (__builtin_add_overflow(range->begin, static_cast<uintptr_t>(bytes),
                             &range->end))
    return Fault::kSizeOverflow;
  return Fault::kNone;
}

// Where `in` lies when the call is in place: this rank's own part of the larger
// buffer, or the same buffer. 0: the operation cannot be in place.
[[gnu::always_inline]] inline uintptr_t in_place_address(uint16_t kind,
                                                         const Range& in,
                                                         const Range& out,
                                                         int rank) {
  const auto block = [rank](const Range& small) {
    return static_cast<uintptr_t>(rank) * (small.end - small.begin);
  };
  switch (kind) {
    case DW_OP_ALL_REDUCE:
    case DW_OP_BROADCAST:
      return out.begin;
    case DW_OP_ALL_GATHER:
      return out.begin + block(in);
    case DW_OP_REDUCE_SCATTER:
      return out.begin - block(out);
    default:
      return 0;
  }
}

[[gnu::always_inline]] inline Fault check_peer(const Call& call,
                                               const OpShape& shape, int rank,
                                               int size) {
  const bool in_range = call.peer >= 0 && call.peer < size;
  if (shape.peer == PeerRole::ROOT && !in_range) return Fault::kRootOutOfRange;
  if (shape.peer == PeerRole::PEER) {
    if (!in_range) return Fault::kPeerOutOfRange;
    if (call.peer == rank) return Fault::kPeerIsSelf;
    if (call.tag < 0 || call.tag > kMaxTag) return Fault::kTagOutOfRange;
  }
  return Fault::kNone;
}

}  // namespace op_check

template <uint16_t kKind>
[[gnu::always_inline]] inline CheckedCall check_call(
    const Call& call, int rank, int size, const Capabilities& capabilities) {
  using namespace op_check;
  constexpr OpShape shape = kOpShapes[kKind];
  const auto faulty = [](Fault fault) { return CheckedCall{fault, false}; };
  if constexpr (shape.peer != PeerRole::NO) {
    const Fault fault = check_peer(call, shape, rank, size);
    if (fault != Fault::kNone) return faulty(fault);
  }
  const bool is_root = call.peer == rank;
  const int64_t in_unit = unit(shape.in, is_root, size);
  const int64_t out_unit = unit(shape.out, is_root, size);

  Range in, out;
  if (in_unit != 0) {
    const Fault fault = check_buffer(call.in, &in);
    if (fault != Fault::kNone) return faulty(fault);
  }
  if (out_unit != 0) {
    const Fault fault = check_buffer(call.out, &out);
    if (fault != Fault::kNone) return faulty(fault);
  }
  if (shape.reduces() &&
      (call.reduce == DW_REDUCE_NONE || call.reduce > DW_REDUCE_PREMUL_SUM))
    return faulty(Fault::kUnknownReduction);
  const DType dtype = out_unit != 0 ? call.out.dtype() : call.in.dtype();
  if (!capabilities.supports(kKind, dtype, call.reduce))
    return faulty(Fault::kUnsupported);

  bool in_place = false;
  if (in_unit != 0 && out_unit != 0) {
    if (call.in.dtype() != call.out.dtype())
      return faulty(Fault::kDTypesDiffer);
    if (static_cast<__int128>(call.in.count()) * out_unit !=
        static_cast<__int128>(call.out.count()) * in_unit)
      return faulty(Fault::kCountsDisagree);
    if (in_unit > 1 && call.in.count() % in_unit != 0)
      return faulty(Fault::kNotDivisible);
    if (in.begin < out.end && out.begin < in.end) {
      in_place = in.begin == in_place_address(kKind, in, out, rank);
      if (!in_place) return faulty(Fault::kOverlap);
    }
  }
  return {Fault::kNone, in_place};
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_OP_CHECK_H_
