// What a backend promises, compiled from its capability rows so that one load
// answers for an operation.
//
// Threads: constant after construction.
#ifndef DISTWRAP_SRC_COMM_CAPABILITIES_H_
#define DISTWRAP_SRC_COMM_CAPABILITIES_H_

#include "comm/op_shape.h"
#include "distwrap/types.h"

#include <absl/types/span.h>

#include <array>
#include <cstdint>

namespace distwrap::comm {

inline constexpr int kDTypes = 13;

class Capabilities {
 public:
  Capabilities() = default;
  // Rows for memory of `device_type` (DLPack's).
  Capabilities(absl::Span<const dw_caps_row> rows, int32_t device_type);

  // Whether a row promises this; `reduce` is DW_REDUCE_NONE for operations that
  // do not reduce, `dtype` any for those without a buffer.
  bool supports(uint16_t kind, DType dtype, uint16_t reduce) const {
    return (reductions_[kind][static_cast<uint8_t>(dtype)] >> reduce & 1) != 0;
  }
  // With some reduction, or without.
  bool supports_any(uint16_t kind, DType dtype) const {
    return reductions_[kind][static_cast<uint8_t>(dtype)] != 0;
  }
  bool supports_kind(uint16_t kind) const;
  int32_t device_type() const { return device_type_; }
  // Of that device, as internal::ViewAccess::place tells it.
  uint32_t memory() const { return memory_; }

 private:
  // [kind][dtype]: bit per reduction, bit 0 for operations without one.
  std::array<std::array<uint16_t, kDTypes>, kOpKinds> reductions_{};
  int32_t device_type_ = kCpu.type;
  uint32_t memory_ = 0;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CAPABILITIES_H_
