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
  constexpr ReduceOp(Kind kind) : meta_(kind) {}

  // Every rank multiplies its input by its own factor before the sum.
  // Floating-point types only.
  static constexpr ReduceOp premul_sum(double factor) {
    ReduceOp op(kPremulSum);
    op.meta_ |= bits(Factor::kNumber);
    op.number_ = factor;
    return op;
  }
  // The factor is one element of the input's type, in host memory or in that of
  // the group's device, which is read when the operation runs.
  static constexpr ReduceOp premul_sum(const TensorView& factor) {
    ReduceOp op(kPremulSum);
    op.tensor_ = factor.data();
    const bool is_one = factor.count() == 1 && factor.data() != nullptr;
    op.meta_ |= bits(is_one ? Factor::kTensor : Factor::kUnusable) |
                static_cast<uint64_t>(factor.dtype()) << kDTypeShift;
    if (factor.device() != kCpu)
      op.meta_ |=
          uint64_t{static_cast<uint8_t>(factor.device().type)} << kDeviceShift |
          uint64_t{static_cast<uint16_t>(factor.device().id)} << kDeviceIdShift;
    return op;
  }

  constexpr Kind kind() const {
    return static_cast<Kind>(static_cast<uint8_t>(meta_));
  }
  constexpr operator Kind() const { return kind(); }

  // How the factor was given. kUnusable: the tensor is not one element.
  enum class Factor : uint8_t { kNone, kNumber, kTensor, kUnusable };
  constexpr Factor factor() const {
    return static_cast<Factor>(static_cast<uint8_t>(meta_ >> kFactorShift));
  }
  constexpr double number() const { return number_; }       // kNumber
  constexpr const void* tensor() const { return tensor_; }  // kTensor
  constexpr DType tensor_dtype() const {
    return static_cast<DType>(static_cast<uint8_t>(meta_ >> kDTypeShift));
  }
  constexpr Device tensor_device() const {
    const auto type = static_cast<uint8_t>(meta_ >> kDeviceShift);
    if (type == 0) return kCpu;
    return {.type = type, .id = static_cast<uint16_t>(meta_ >> kDeviceIdShift)};
  }

  // Two reductions are equal only when their factors are equal, too.
  friend constexpr bool operator==(const ReduceOp& a, const ReduceOp& b) {
    if (a.kind() != b.kind() || a.factor() != b.factor()) return false;
    if (a.factor() == Factor::kNumber) return a.number_ == b.number_;
    return a.factor() == Factor::kNone ||
           (a.tensor_ == b.tensor_ && a.tensor_dtype() == b.tensor_dtype());
  }
  friend constexpr bool operator==(const ReduceOp& a, Kind b) {
    return a == ReduceOp(b);
  }

 private:
  static constexpr int kFactorShift = 8, kDTypeShift = 16, kDeviceShift = 24,
                       kDeviceIdShift = 32;
  static constexpr uint64_t bits(Factor factor) {
    return static_cast<uint64_t>(factor) << kFactorShift;
  }

  union {
    const void* tensor_ = nullptr;
    double number_;
  };
  // From the lowest bit on, 8 bits each: kind, factor, the tensor's element
  // type and DLPack's type of its device, of which 0 stands for host memory;
  // then 16 of the device's number. One word, since calls copy it often.
  uint64_t meta_;
};
// A ReduceOp is passed in two registers.
static_assert(sizeof(ReduceOp) == 16);

// The name, for example "sum"; "?" for an unknown value.
DISTWRAP_EXPORT absl::string_view reduce_op_name(ReduceOp::Kind kind);

}  // namespace distwrap

#endif  // DISTWRAP_REDUCE_OP_H_
