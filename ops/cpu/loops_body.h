// All loops of one variant: DW_VARIANT is its namespace, DW_VARIANT_BYTES the
// size of its registers, DW_VARIANT_TABLE the table that it defines. Included
// once by each variant's file, after loops_variants.h.
#include "cpu/loops_elementwise.h"
#include "cpu/loops_functions.h"
#include "cpu/loops_rows.h"

namespace distwrap::cpu::DW_VARIANT {
namespace {

template <class T>
Loop find_float(Op op) {
  using F = Functions<T>;
  switch (op) {
    case Op::kSqrt:
      return &unary<T, Sqrt>;
    case Op::kRsqrt:
      return &unary<T, Rsqrt>;
    case Op::kExp:
      return &exp<T>;
    case Op::kLog:
      return &function<T, &F::log>;
    case Op::kSin:
      return &function<T, &F::sin>;
    case Op::kCos:
      return &function<T, &F::cos>;
    case Op::kTanh:
      return &function<T, &F::tanh>;
    case Op::kSigmoid:
      return &sigmoid<T>;
    case Op::kGelu:
      return &gelu<T>;
    case Op::kSilu:
      return &silu<T>;
    case Op::kDiv:
      return &binary<T, T, Div>;
    case Op::kGeluBackward:
      return &gelu_backward<T>;
    case Op::kSiluBackward:
      return &silu_backward<T>;
    case Op::kAdamw:
      return &adamw<T>;
    default:
      return nullptr;
  }
}

// The operators for which integers of one size need one loop.
template <class T>
Loop find_wrapping(Op op) {
  switch (op) {
    case Op::kNeg:
      return &unary<T, Neg>;
    case Op::kAdd:
      return &add<T>;
    case Op::kMul:
      return &binary<T, T, Mul>;
    case Op::kEq:
      return &binary<T, uint8_t, Eq>;
    default:
      return nullptr;
  }
}

template <class T>
Loop find_ordered(Op op) {
  switch (op) {
    case Op::kAbs:
      return &unary<T, Abs>;
    case Op::kSign:
      return &unary<T, Sign>;
    case Op::kRelu:
      return &unary<T, Relu>;
    case Op::kMaximum:
      return &binary<T, T, Maximum>;
    case Op::kLt:
      return &binary<T, uint8_t, Lt>;
    default:
      return nullptr;
  }
}

template <class T>
Loop find_number(Op op) {
  if (const Loop loop = find_ordered<T>(op)) return loop;
  if constexpr (std::integral<T>) {
    return find_wrapping<std::make_unsigned_t<T>>(op);
  } else {
    if (const Loop loop = find_wrapping<T>(op)) return loop;
    return find_float<T>(op);
  }
}

Loop find_bool(Op op) {
  switch (op) {
    case Op::kAdd:
      return &add_bool;
    case Op::kMul:
      return &binary<uint8_t, uint8_t, AndBool>;
    case Op::kMaximum:
      return &binary<uint8_t, uint8_t, OrBool>;
    case Op::kEq:
      return &binary<uint8_t, uint8_t, EqBool>;
    case Op::kLt:
      return &binary<uint8_t, uint8_t, LtBool>;
    default:
      return nullptr;
  }
}

Loop find(Op op, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return find_bool(op);
    case DType::kU8:
      return find_number<uint8_t>(op);
    case DType::kI8:
      return find_number<int8_t>(op);
    case DType::kU16:
      return find_number<uint16_t>(op);
    case DType::kI16:
      return find_number<int16_t>(op);
    case DType::kU32:
      return find_number<uint32_t>(op);
    case DType::kI32:
      return find_number<int32_t>(op);
    case DType::kU64:
      return find_number<uint64_t>(op);
    case DType::kI64:
      return find_number<int64_t>(op);
    case DType::kF32:
      return find_number<float>(op);
    case DType::kF64:
      return find_number<double>(op);
    default:
      return nullptr;
  }
}

Loop find_where(int64_t size) {
  switch (size) {
    case 1:
      return &where<uint8_t>;
    case 2:
      return &where<uint16_t>;
    case 4:
      return &where<uint32_t>;
    default:
      return &where<uint64_t>;
  }
}

}  // namespace
}  // namespace distwrap::cpu::DW_VARIANT

namespace distwrap::cpu {

const Loops DW_VARIANT_TABLE = {DW_VARIANT_NAME,
                                &DW_VARIANT::find,
                                &DW_VARIANT::find_where,
                                [](float* out, const uint16_t* in, int64_t n) {
                                  DW_INDEPENDENT
                                  for (int64_t i = 0; i < n; ++i)
                                    out[i] = dw_sdk::f16_to_f32(in[i]);
                                },
                                [](float* out, const uint16_t* in, int64_t n) {
                                  DW_INDEPENDENT
                                  for (int64_t i = 0; i < n; ++i)
                                    out[i] = dw_sdk::bf16_to_f32(in[i]);
                                },
                                [](uint16_t* out, const float* in, int64_t n) {
                                  DW_INDEPENDENT
                                  for (int64_t i = 0; i < n; ++i)
                                    out[i] = dw_sdk::f32_to_f16(in[i]);
                                },
                                [](uint16_t* out, const float* in, int64_t n) {
                                  DW_INDEPENDENT
                                  for (int64_t i = 0; i < n; ++i)
                                    out[i] = dw_sdk::f32_to_bf16(in[i]);
                                },
                                DW_VARIANT::rows_of<float>(),
                                DW_VARIANT::rows_of<double>()};

}  // namespace distwrap::cpu
