// The form in which values travel: packed, and of a type in which they can be
// reduced without loss or moved with fewer bytes.
//
// Threads: none shared. Ownership: values; local tensors borrow their memory.
#ifndef DISTWRAP_SRC_MESH_WIRE_FORM_H_
#define DISTWRAP_SRC_MESH_WIRE_FORM_H_

#include "distwrap/plan.h"
#include "distwrap/tensor_view.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace distwrap::mesh {

// A rank's part of a tensor, as the caller has it.
struct LocalTensor {
  std::byte* data = nullptr;
  // Empty where the elements lie row-major without gaps.
  absl::Span<const int64_t> shape = {}, strides = {};

  explicit LocalTensor(const TensorView& view)
      : data(static_cast<std::byte*>(view.data())),
        shape(view.contiguous() ? absl::Span<const int64_t>() : view.shape()),
        strides(view.strides()) {}
};

class WireForm {
 public:
  // The form for the steps of a plan: `wire` where it is given and something is
  // sent. An average of integers travels as a sum that cannot wrap, a norm as
  // powers. kInvalidArgument: a norm of integers, or a `wire` where one of the
  // two types is no float.
  static absl::StatusOr<WireForm> make(const Plan& plan, DType dtype,
                                       std::optional<DType> wire);

  // Values that travel as another type; errors as make.
  static absl::StatusOr<WireForm> cast(DType dtype, DType wire);

  // The caller's type, and that of the elements that travel; a value is
  // `words` of these.
  DType outside() const { return outside_; }
  DType inside() const { return inside_; }
  int64_t words() const { return words_; }
  // Bytes of a value that travels.
  size_t size() const {
    return static_cast<size_t>(words_ * dtype_size(inside_));
  }
  // Whether a packed part is in this form as it is.
  bool is_plain() const { return kind_ == Kind::kPlain; }
  // Whether this form does the divisions of the plan's averages.
  bool divides() const {
    return kind_ == Kind::kSplit || kind_ == Kind::kSummed;
  }

  // Bring `count` values into this form, and back.
  void enter(std::byte* to, const LocalTensor& from, int64_t count) const;
  void leave(const LocalTensor& to, const std::byte* from, int64_t count) const;

 private:
  enum class Kind {
    kPlain,
    kCast,
    kSummed,  // an i64, which is divided when it leaves
    kSplit,   // quotient and remainder by the divisor, each an i64
    kPowers,  // |x|^norm
  };

  Kind kind_ = Kind::kPlain;
  DType outside_ = DType::kF32, inside_ = DType::kF32;
  int64_t words_ = 1, divisor_ = 1;
  double norm_ = 0;
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_WIRE_FORM_H_
