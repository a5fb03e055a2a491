// A reduction, with the factor of premul_sum.
//
// Threads: a value. Ownership: a tensor factor's memory is the caller's and
// lives until the operation is done.
//
//   distwrap::all_reduce(x, ReduceOp::kMax);
//   distwrap::all_reduce(x, ReduceOp::premul_sum(0.5));
#ifndef DISTWRAP_REDUCE_OP_H_
#define DISTWRAP_REDUCE_OP_H_

#include "distwrap/export.h"
#include "distwrap/tensor_view.h"

#include <cstdint>

namespace distwrap {

class ReduceOp {
 public:
  // abi/reductions.def lists the reductions with their meanings and element
  // types.
  enum Kind : uint8_t {
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  enumerator = value,
#include "distwrap/abi/reductions.def"
  };

  // kPremulSum needs a factor and is refused without one.
  constexpr ReduceOp(Kind kind) : kind_(kind) {}

  // Every rank multiplies its input by its own factor before the sum.
  // Floating-point types only.
  static constexpr ReduceOp premul_sum(double factor) {
    ReduceOp op(kPremulSum);
    op.factor_ = Factor::kNumber;
    op.number_ = factor;
    return op;
  }
  // The factor is one element of the input's type, in host memory or in that of
  // the group's device, which is read when the operation runs.
  static constexpr ReduceOp premul_sum(const TensorView& factor) {
    ReduceOp op(kPremulSum);
    op.factor_ = factor.count() == 1 && factor.data() != nullptr
                     ? Factor::kTensor
                     : Factor::kUnusable;
    op.tensor_ = factor.data();
    op.tensor_dtype_ = factor.dtype();
    if (factor.device() != kCpu) {
      op.device_type_ = static_cast<uint8_t>(factor.device().type);
      op.device_id_ = static_cast<uint16_t>(factor.device().id);
    }
    return op;
  }

  constexpr Kind kind() const { return kind_; }
  constexpr operator Kind() const { return kind_; }

  // How the factor was given. kUnusable: the tensor is not one element.
  enum class Factor : uint8_t { kNone, kNumber, kTensor, kUnusable };
  constexpr Factor factor() const { return factor_; }
  constexpr double number() const { return number_; }       // kNumber
  constexpr const void* tensor() const { return tensor_; }  // kTensor
  constexpr DType tensor_dtype() const { return tensor_dtype_; }
  constexpr Device tensor_device() const {
    return device_type_ == 0 ? kCpu
                             : Device{.type = device_type_, .id = device_id_};
  }

  // Two reductions are equal only when their factors are equal, too.
  friend constexpr bool operator==(const ReduceOp& a, const ReduceOp& b) {
    if (a.kind_ != b.kind_ || a.factor_ != b.factor_) return false;
    if (a.factor_ == Factor::kNumber) return a.number_ == b.number_;
    return a.factor_ == Factor::kNone ||
           (a.tensor_ == b.tensor_ && a.tensor_dtype_ == b.tensor_dtype_);
  }
  friend constexpr bool operator==(const ReduceOp& a, Kind b) {
    return a == ReduceOp(b);
  }

 private:
  union {
    const void* tensor_ = nullptr;
    double number_;
  };
  Kind kind_;
  Factor factor_ = Factor::kNone;
  DType tensor_dtype_ = DType::kU8;
  // All zero without a factor, which then costs a call nothing.
  uint8_t device_type_ = 0;  // DLPack's; 0 stands for host memory
  uint16_t device_id_ = 0;
};
// A ReduceOp is passed in two registers.
static_assert(sizeof(ReduceOp) == 16);

// The name, for example "sum"; "?" for an unknown value.
DISTWRAP_EXPORT absl::string_view reduce_op_name(ReduceOp::Kind kind);

}  // namespace distwrap

#endif  // DISTWRAP_REDUCE_OP_H_
