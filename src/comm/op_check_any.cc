// The rules of calls that leave the short path: lists, scans, premul_sum, and
// any call whose kind is only known at run time.
#include "comm/op_check.h"
#include "comm/op_check_divided.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace distwrap::comm {
namespace {

using op_check::check_buffer;
using op_check::check_peer;
using op_check::Range;
using op_check::Use;

// The element types that a reduction is defined for.
enum class Takes : uint8_t { ANY, NUMBERS, INTEGERS, FLOATS };

bool takes(Takes what, DType dtype) {
  // Only a backend's promises say whether floats of 8 bits are reduced.
  if (dtype == DType::kF8E4M3FN || dtype == DType::kF8E5M2)
    return what == Takes::ANY || what == Takes::NUMBERS;
  const bool is_float = dtype == DType::kF16 || dtype == DType::kBF16 ||
                        dtype == DType::kF32 || dtype == DType::kF64;
  switch (what) {
    case Takes::ANY:
      return true;
    case Takes::NUMBERS:
      return dtype != DType::kBool;
    case Takes::INTEGERS:
      return !is_float;
    case Takes::FLOATS:
      return is_float;
  }
  return false;
}

// Calls the template for a kind that is only known at run time.
CheckedCall check_plain_call(uint16_t kind, const Call& call, int rank,
                             int size, const Capabilities& capabilities) {
  switch (kind) {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  case value:                                                        \
    return check_call<value>(call, rank, size, capabilities);
#include "distwrap/abi/ops.def"
    default:
      return {Fault::kUnsupported, false};
  }
}

Fault check_reduction(uint16_t kind, const AnyCall& call, DType dtype,
                      Device device) {
  if (call.reduce == DW_REDUCE_NONE || call.reduce > DW_REDUCE_PREMUL_SUM)
    return Fault::kUnknownReduction;
  if (kind == DW_OP_SCAN && call.reduce == DW_REDUCE_AVG)
    return Fault::kAverageInScan;
  if (!reduction_takes(call.reduce, dtype)) return Fault::kReductionForDType;
  if (call.reduce != DW_REDUCE_PREMUL_SUM) return Fault::kNone;
  switch (call.op.factor()) {
    case ReduceOp::Factor::kNone:
      return Fault::kNoFactor;
    case ReduceOp::Factor::kUnusable:
      return Fault::kFactorUnusable;
    case ReduceOp::Factor::kTensor:
      if (call.op.tensor_dtype() != dtype) return Fault::kFactorDType;
      return call.op.tensor_device() == kCpu ||
                     call.op.tensor_device() == device
                 ? Fault::kNone
                 : Fault::kFactorElsewhere;
    case ReduceOp::Factor::kNumber:
      break;
  }
  return Fault::kNone;
}

// The promises for the size of the call: with counts per rank those for any
// size, since no rank knows what the others have.
const Capabilities& at_size(const Capabilities& promised, uint16_t kind,
                            const OpShape& shape, const AnyCall& call, int rank,
                            int size) {
  if (call.per_rank || call.lists) return promised;
  const bool by_in =
      shape.in == Extent::ALL ||
      (shape.out != Extent::ALL && has_buffer(shape.in, call.peer == rank));
  const TensorView& view = by_in ? call.in : call.out;
  const int64_t parts = is_divided(by_in ? shape.in : shape.out) ? size : 1;
  // A view may claim more bytes than there are; that is refused later.
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(view.count() / parts, dtype_size(view.dtype()),
                             &bytes))
    bytes = UINT64_MAX;
  return promised.at(kind, view.dtype(), call.reduce, bytes);
}

}  // namespace

bool reduction_takes(uint16_t reduce, DType dtype) {
  switch (reduce) {
#define DW_REDUCTION(value, name, enumerator, text, what, meaning) \
  case value:                                                      \
    return takes(Takes::what, dtype);
#include "distwrap/abi/reductions.def"
    default:
      return false;
  }
}

CheckedCall check_any_call(uint16_t kind, const AnyCall& call, int rank,
                           int size, const Capabilities& promised) {
  // A plain call that keeps the rules of the short path keeps those below,
  // which name the fault of the others.
  const OpShape& shape = op_shape(kind);
  if (!call.per_rank && !call.lists && !call.placed_by_extension &&
      !shape.reduces())
    if (const CheckedCall checked =
            check_plain_call(kind, call, rank, size, promised);
        checked.fault == Fault::kNone)
      return checked;
  const Capabilities& capabilities =
      at_size(promised, kind, shape, call, rank, size);
  const uint32_t memory = capabilities.memory();
  if (shape.peer != PeerRole::NO)
    if (const Fault fault = check_peer(call, shape, size);
        fault != Fault::kNone)
      return {fault, false};
  CheckedCall checked;
  if (call.lists) {
    checked = check_list_call(shape, call, rank, size, memory);
    if (checked.fault != Fault::kNone) return checked;
  }
  const bool has_in = has_buffer(shape.in, call.peer == rank);
  // All views of a list have one element type, that of the first.
  const TensorView& in = call.ins.empty() ? call.in : call.ins.front();
  const TensorView& out = call.outs.empty() ? call.out : call.outs.front();
  Call plain = call;  // without the arguments of other forms
  if (shape.reduces()) {
    Range ignored;
    if (const Fault fault = check_buffer(in, Use::kInput, memory, &ignored);
        fault != Fault::kNone)
      return {fault, false};
    if (const Fault fault =
            check_reduction(kind, call, in.dtype(), capabilities.device());
        fault != Fault::kNone)
      return {fault, false};
    // The short path does not know premul_sum, which otherwise equals a sum.
    if (call.reduce == DW_REDUCE_PREMUL_SUM) plain.reduce = DW_REDUCE_SUM;
  }
  if (call.placed_by_extension)
    checked = check_placed_call(kind, call, rank, size);
  else if (!call.lists)
    checked = call.per_rank
                  ? op_check::check_divided(shape, kind, call, call.in_counts,
                                            call.out_counts, rank, size, memory)
                  : check_plain_call(kind, plain, rank, size, capabilities);
  if (checked.fault != Fault::kNone) return checked;
  const DType dtype = has_in ? in.dtype() : out.dtype();
  if (!capabilities.supports(kind, dtype, call.reduce))
    return {Fault::kUnsupported, false};
  return checked;
}

}  // namespace distwrap::comm
