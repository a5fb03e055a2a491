// The rules of v forms: buffers that are divided by counts.
//
// Inlined for the reason that `check_call` is.
#ifndef DISTWRAP_SRC_COMM_OP_CHECK_DIVIDED_H_
#define DISTWRAP_SRC_COMM_OP_CHECK_DIVIDED_H_

#include "comm/op_check.h"
#include "comm/op_shape.h"

#include <cstdint>

namespace distwrap::comm {

namespace op_check {

// The faults of a division, by the buffer that has it.
struct DivisionFaults {
  Fault counts_length, displs_length, negative, exceed;
};
inline constexpr DivisionFaults kOfInput{
    Fault::kInputCountsLength, Fault::kInputDisplsLength,
    Fault::kInputPieceNegative, Fault::kInputPiecesExceed};
inline constexpr DivisionFaults kOfOutput{
    Fault::kOutputCountsLength, Fault::kOutputDisplsLength,
    Fault::kOutputPieceNegative, Fault::kOutputPiecesExceed};

[[gnu::always_inline]] inline Fault check_division(const Counts& division,
                                                   int64_t elements, int size,
                                                   const DivisionFaults& faults,
                                                   int64_t* sum) {
  const auto ranks = static_cast<size_t>(size);
  if (division.counts.size() != ranks) return faults.counts_length;
  const bool placed = !division.displs.empty();
  if (placed && division.displs.size() != ranks) return faults.displs_length;
  const int64_t* const counts = division.counts.data();
  int64_t end = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const int64_t begin = placed ? division.displs[r] : end;
    if ((counts[r] | begin) < 0) return faults.negative;
    if (__builtin_add_overflow(begin, counts[r], &end) || end > elements ||
        __builtin_add_overflow(*sum, counts[r], sum))
      return faults.exceed;
  }
  return division.whole && end != elements ? Fault::kNotDivisible
                                           : Fault::kNone;
}

// Whether written pieces of a division with displacements overlap.
bool pieces_overlap(const Counts& division);
// Address of a rank's piece.
uintptr_t piece_address(const Range& range, const Counts& division, int rank,
                        int64_t element);

// Checks buffers and counts alone.
[[gnu::always_inline]] inline CheckedCall check_divided(
    const OpShape& shape, uint16_t kind, const Call& call,
    const Counts& in_counts, const Counts& out_counts, int rank, int size,
    uint32_t memory) {
  const auto faulty = [](Fault fault) { return CheckedCall{fault}; };
  CheckedCall checked;
  const bool is_root = call.peer == rank;
  const bool has_in = has_buffer(shape.in, is_root);
  const bool has_out = has_buffer(shape.out, is_root);
  const bool in_divided = has_in && is_divided(shape.in);
  const bool out_divided = has_out && is_divided(shape.out);
  Range in, out;
  if (const Fault fault =
          check_buffers(call, has_in, has_out, memory, &in, &out);
      fault != Fault::kNone)
    return faulty(fault);
  if (has_in && has_out && call.in.dtype() != call.out.dtype())
    return faulty(Fault::kDTypesDiffer);
  const int64_t in_count = internal::ViewAccess::count(call.in);
  const int64_t out_count = internal::ViewAccess::count(call.out);
  if (in_divided)
    if (const Fault fault = check_division(in_counts, in_count, size, kOfInput,
                                           &checked.in_sum);
        fault != Fault::kNone)
      return faulty(fault);
  if (out_divided) {
    if (const Fault fault = check_division(out_counts, out_count, size,
                                           kOfOutput, &checked.out_sum);
        fault != Fault::kNone)
      return faulty(fault);
    if (!out_counts.displs.empty() && pieces_overlap(out_counts))
      return faulty(Fault::kPiecesOverlap);
  }
  if (has_in && has_out) {
    const int64_t gives = in_divided ? in_counts.counts.data()[rank] : in_count;
    const int64_t takes =
        out_divided ? out_counts.counts.data()[rank] : out_count;
    if (gives != takes) return faulty(Fault::kOwnPieceDiffers);
  }

  if (in.begin < out.end && out.begin < in.end) {
    const int64_t element = dtype_size(call.in.dtype());
    checked.in_place =
        kind != DW_OP_ALL_TO_ALL &&
        (out_divided
             ? in.begin == piece_address(out, out_counts, rank, element)
             : out.begin == piece_address(in, in_counts, rank, element));
    if (!checked.in_place) return faulty(Fault::kOverlap);
  }
  return checked;
}

}  // namespace op_check

// `check_call` of a v form.
template <uint16_t kKind>
[[gnu::always_inline]] inline CheckedCall check_divided_call(
    const DividedCall& call, int rank, int size,
    const Capabilities& capabilities) {
  using namespace op_check;
  constexpr OpShape shape = kOpShapes[kKind];
  const auto faulty = [](Fault fault) { return CheckedCall{fault}; };
  if constexpr (shape.peer != PeerRole::NO) {
    const Fault fault = check_peer(call, shape, size);
    if (fault != Fault::kNone) return faulty(fault);
  }
  if (shape.reduces() && call.reduce - 1u >= DW_REDUCE_PREMUL_SUM - 1u)
    return faulty(Fault::kUnknownReduction);
  const CheckedCall checked =
      check_divided(shape, kKind, call, call.in_counts, call.out_counts, rank,
                    size, capabilities.memory());
  if (checked.fault != Fault::kNone) return checked;
  const DType dtype = has_buffer(shape.in, call.peer == rank)
                          ? call.in.dtype()
                          : call.out.dtype();
  if (!capabilities.supports(kKind, dtype, call.reduce))
    return faulty(Fault::kUnsupported);
  return checked;
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_OP_CHECK_DIVIDED_H_
