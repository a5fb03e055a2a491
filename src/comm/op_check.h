// The rules that a call must keep before anything is sent.
//
// The check itself returns a number, so that a good call pays a few compares;
// the text of a bad one is made apart.
#ifndef DISTWRAP_SRC_COMM_OP_CHECK_H_
#define DISTWRAP_SRC_COMM_OP_CHECK_H_

#include "comm/capabilities.h"
#include "distwrap/communicator.h"
#include "distwrap/status.h"

#include <absl/status/status.h>

#include <cstdint>

namespace distwrap::comm {

// The arguments of a call; the kind of operation is passed separately.
struct Call {
  uint16_t reduce = DW_REDUCE_NONE;
  TensorView out = {}, in = {};
  int peer = -1;
  int64_t tag = 0;
  ReduceOp op = ReduceOp::kSum;  // read when there is a factor
};

// A v form, with the caller's counts for the buffers that the shape calls R*n.
struct DividedCall : Call {
  const Counts& out_counts;
  const Counts& in_counts;
};

// Arguments of other forms. They are separate, since a member that a plain call
// lacks would be written for it too.
struct CallRest {
  // True for v forms.
  bool per_rank = false;
  Counts out_counts = {}, in_counts = {};
  // True for list forms; `out` or `in` then stays empty.
  bool lists = false;
  absl::Span<const TensorView> outs = {}, ins = {};
  bool exclusive = false;  // scan
  uint32_t tag_class = DW_TAG_CLASS_USER;
  // Extensions of the descriptor. The chain lives as the buffers do: until the
  // operation has ended.
  const dw_ext* next = nullptr;
  // A v form of bytes whose extension says where they lie: there are counts,
  // and neither views nor displacements. The input of an all_gather has a view
  // with its bytes.
  bool placed_by_extension = false;
};

struct AnyCall : Call, CallRest {};

inline AnyCall any_call(const Call& call) { return {call, {}}; }
inline AnyCall any_call(const DividedCall& call) {
  return {static_cast<const Call&>(call),
          {.per_rank = true,
           .out_counts = call.out_counts,
           .in_counts = call.in_counts}};
}

enum class Fault : uint8_t {
  kNone,
  kUnknownDType,
  kImpossibleShape,
  kNotContiguous,
  kReadOnlyOutput,
  kDTypesDiffer,
  kOtherDevice,
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
  kTagOutOfRange,
  // Faults of calls that leave the short path.
  kNoFactor,
  kFactorUnusable,
  kFactorElsewhere,
  kFactorDType,
  kReductionForDType,
  kAverageInScan,
  kInputCountsLength,
  kOutputCountsLength,
  kInputDisplsLength,
  kOutputDisplsLength,
  kInputPieceNegative,
  kOutputPieceNegative,
  kInputPiecesExceed,
  kOutputPiecesExceed,
  kPiecesOverlap,
  kOwnPieceDiffers,
  // Faults of lists.
  kInputListLength,
  kOutputListLength,
  kListDTypesDiffer,
  kOwnTensorDiffers,
  kListOverlap,
  kOutputsOverlap,
};

struct CheckedCall {
  Fault fault = Fault::kNone;
  bool in_place = false;
  // Elements in all pieces, where the call has counts.
  int64_t in_sum = 0, out_sum = 0;
};

// `rank` and `size`: those of the calling group. Inlined, below: the kind is a
// constant, so most of it folds away.
template <uint16_t kKind>
CheckedCall check_call(const Call& call, int rank, int size,
                       const Capabilities& capabilities);

// Checks any call, premul_sum included, which `check_call` answers with
// kUnknownReduction.
CheckedCall check_any_call(uint16_t kind, const AnyCall& call, int rank,
                           int size, const Capabilities& capabilities);

// The part of `check_any_call` about counts whose memory an extension knows.
// In op_check_divided.cc.
CheckedCall check_placed_call(uint16_t kind, const AnyCall& call, int rank,
                              int size);

// The part of `check_any_call` about lists. In op_check_list.cc.
CheckedCall check_list_call(const OpShape& shape, const AnyCall& call, int rank,
                            int size, uint32_t memory);
// The list that the call gives for a buffer, empty without one.
inline absl::Span<const TensorView> list_of(const AnyCall& call, bool input) {
  return input ? call.ins : call.outs;
}
// The part of `describe_fault` for the faults of lists.
void describe_list_fault(Fault fault, const AnyCall& call, int rank, int size,
                         ErrorInfo* info);

// Whether the reduction is defined for the element type.
bool reduction_takes(uint16_t reduce, DType dtype);

// The error of a fault, with reason, what, expected, actual and next step; the
// caller adds who.
ErrorInfo describe_fault(Fault fault, uint16_t kind, const AnyCall& call,
                         int rank, int size, absl::string_view backend,
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

enum class Use : uint8_t { kInput, kOutput };

// Faults of a view that is more than elements in the communicator's memory; it
// may have none. Takes the code alone: a view whose address went out would have
// to lie in memory.
constexpr Fault unusual_fault(uint32_t code, Use use) {
  using internal::ViewAccess;
  if ((code & ViewAccess::kDTypeMask) >= kDTypes) return Fault::kUnknownDType;
  if ((code & ViewAccess::kImpossible) != 0) return Fault::kImpossibleShape;
  if ((code & ViewAccess::kStrided) != 0) return Fault::kNotContiguous;
  if ((code & ~(ViewAccess::kDTypeMask | ViewAccess::kReadOnly)) != 0)
    return Fault::kOtherDevice;
  return use == Use::kOutput ? Fault::kReadOnlyOutput : Fault::kNone;
}

// Checks one buffer by itself, which has to lie in `memory`, as Capabilities
// tells it; on success sets its addresses.
[[gnu::always_inline]] inline Fault check_buffer(const TensorView& view,
                                                 Use use, uint32_t memory,
                                                 Range* range) {
  const uint32_t code = internal::ViewAccess::code(view) ^ memory;
  if (code >= kDTypes) [[unlikely]]
    if (const Fault fault = unusual_fault(code, use); fault != Fault::kNone)
      return fault;
  const int64_t count = internal::ViewAccess::count(view);
  if (count < 0) return Fault::kNegativeCount;
  int64_t bytes;
  if (__builtin_mul_overflow(count, dtype_size(view.dtype()), &bytes))
    return Fault::kSizeOverflow;
  if (view.data() == nullptr && count > 0) return Fault::kNullBuffer;
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
    case DW_OP_REDUCE:
    case DW_OP_SCAN:
      return out.begin;
    case DW_OP_ALL_GATHER:
    case DW_OP_GATHER:
      return out.begin + block(in);
    case DW_OP_REDUCE_SCATTER:
    case DW_OP_SCATTER:
      return out.begin - block(out);
    default:
      return 0;
  }
}

[[gnu::always_inline]] inline Fault check_peer(const Call& call,
                                               const OpShape& shape, int size) {
  const bool in_range = call.peer >= 0 && call.peer < size;
  if (shape.peer == PeerRole::ROOT && !in_range) return Fault::kRootOutOfRange;
  if (shape.peer == PeerRole::PEER) {
    if (!in_range) return Fault::kPeerOutOfRange;
    if (call.tag < 0 || call.tag > kMaxTag) return Fault::kTagOutOfRange;
  }
  return Fault::kNone;
}

// Checks the buffers that this rank has.
[[gnu::always_inline]] inline Fault check_buffers(const Call& call, bool has_in,
                                                  bool has_out, uint32_t memory,
                                                  Range* in, Range* out) {
  if (has_in)
    if (const Fault fault = check_buffer(call.in, Use::kInput, memory, in);
        fault != Fault::kNone)
      return fault;
  return has_out ? check_buffer(call.out, Use::kOutput, memory, out)
                 : Fault::kNone;
}

}  // namespace op_check

template <uint16_t kKind>
[[gnu::always_inline]] inline CheckedCall check_call(
    const Call& call, int rank, int size, const Capabilities& capabilities) {
  using namespace op_check;
  constexpr OpShape shape = kOpShapes[kKind];
  const auto faulty = [](Fault fault) { return CheckedCall{fault, false}; };
  if constexpr (shape.peer != PeerRole::NO) {
    const Fault fault = check_peer(call, shape, size);
    if (fault != Fault::kNone) return faulty(fault);
  }
  const bool is_root = call.peer == rank;
  const int64_t in_unit = unit(shape.in, is_root, size);
  const int64_t out_unit = unit(shape.out, is_root, size);

  Range in, out;
  if (const Fault fault = check_buffers(call, in_unit != 0, out_unit != 0,
                                        capabilities.memory(), &in, &out);
      fault != Fault::kNone)
    return faulty(fault);
  // premul_sum, the last one, takes the general path.
  if (shape.reduces() && call.reduce - 1u >= DW_REDUCE_PREMUL_SUM - 1u)
    return faulty(Fault::kUnknownReduction);
  const DType dtype = out_unit != 0 ? call.out.dtype() : call.in.dtype();
  if (!capabilities.supports(kKind, dtype, call.reduce))
    return faulty(Fault::kUnsupported);

  bool in_place = false;
  if (in_unit != 0 && out_unit != 0) {
    if (call.in.dtype() != call.out.dtype())
      return faulty(Fault::kDTypesDiffer);
    const int64_t in_count = internal::ViewAccess::count(call.in);
    const int64_t out_count = internal::ViewAccess::count(call.out);
    if (static_cast<__int128>(in_count) * out_unit !=
        static_cast<__int128>(out_count) * in_unit)
      return faulty(Fault::kCountsDisagree);
    // Otherwise this follows from the check above.
    if (in_unit > 1 && out_unit > 1 && in_count % in_unit != 0)
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
