// A backend's promises, compiled from its capability rows so that one load
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
#include <memory>
#include <vector>

namespace distwrap::comm {

inline constexpr int kDTypes = 15;

class Capabilities {
 public:
  Capabilities() = default;
  // Rows for memory of this device.
  Capabilities(absl::Span<const dw_caps_row> rows, Device device);

  // Whether a row promises this; `reduce` is DW_REDUCE_NONE for operations that
  // do not reduce, `dtype` any for those without a buffer.
  bool supports(uint16_t kind, DType dtype, uint16_t reduce) const {
    return (reductions_[kind][static_cast<uint8_t>(dtype)] >> reduce & 1) != 0;
  }
  // Whether a row promises this with any reduction or without one.
  bool supports_any(uint16_t kind, DType dtype) const {
    return reductions_[kind][static_cast<uint8_t>(dtype)] != 0;
  }
  bool supports_kind(uint16_t kind) const;
  // The kinds whose rows have DW_FLAG_REGISTERED.
  uint64_t registering() const { return registering_; }
  // The promises for a collective of `bytes` on each rank: these, or these with
  // those of rows that have size limits.
  const Capabilities& at(uint16_t kind, DType dtype, uint16_t reduce,
                         uint64_t bytes) const;
  Device device() const { return device_; }
  // The device's memory, as internal::ViewAccess::place tells it.
  uint32_t memory() const { return memory_; }

 private:
  void add(const dw_caps_row& row);

  // [kind][dtype]: bit per reduction, bit 0 for operations without one.
  // Rows of 16, to be found by a shift.
  static_assert(kDTypes <= 16);
  std::array<std::array<uint16_t, 16>, kOpKinds> reductions_{};
  Device device_ = kCpu;
  uint32_t memory_ = 0;
  uint64_t registering_ = 0;
  std::vector<dw_caps_row> limited_;  // rows with limits of sizes
  // These promises together with those of `limited_` without their limits;
  // null: equal to these.
  std::shared_ptr<const Capabilities> unlimited_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_CAPABILITIES_H_
