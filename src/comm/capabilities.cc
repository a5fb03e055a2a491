#include "comm/capabilities.h"

#include "distwrap/tensor_view.h"

#include <algorithm>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr int count_dtypes() {
  int n = 0;
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) ++n;
#include "distwrap/abi/dtypes.def"
  return n;
}
static_assert(count_dtypes() == kDTypes);

}  // namespace

Capabilities::Capabilities(absl::Span<const dw_caps_row> rows, Device device)
    : device_(device), memory_(internal::ViewAccess::place(device)) {
  for (const dw_caps_row& row : rows) {
    if ((row.memory & DW_BIT(device.type)) == 0) continue;
    if (row.min_bytes == 0 && row.max_bytes == 0)
      add(row);
    else if ((row.ops & kCollectiveOps) != 0)
      limited_.push_back(row);
  }
  if (limited_.empty()) return;
  auto unlimited = std::make_shared<Capabilities>(*this);
  for (const dw_caps_row& row : limited_) unlimited->add(row);
  unlimited_ = std::move(unlimited);
}

void Capabilities::add(const dw_caps_row& row) {
  if ((row.flags & DW_FLAG_REGISTERED) != 0)
    registering_ |= row.ops & kCollectiveOps;
  for (uint16_t kind = 1; kind < kOpKinds; ++kind) {
    if ((row.ops & DW_BIT(kind)) == 0) continue;
    const OpShape& shape = op_shape(kind);
    const bool bare = shape.in == Extent::NONE && shape.out == Extent::NONE;
    const uint16_t bits =
        shape.reduces() ? static_cast<uint16_t>(row.reductions & ~1u) : 1;
    for (int dtype = 0; dtype < kDTypes; ++dtype)
      if (bare || (row.dtypes & DW_BIT(dtype)) != 0)
        reductions_[kind][static_cast<size_t>(dtype)] |= bits;
  }
}

const Capabilities& Capabilities::at(uint16_t kind, DType dtype,
                                     uint16_t reduce, uint64_t bytes) const {
  // A reduction that does not exist is in no row.
  const uint32_t bit = !op_shape(kind).reduces() ? ~0u
                       : reduce < 32             ? 1u << reduce
                                                 : 0u;
  for (const dw_caps_row& row : limited_)
    if ((row.ops & kCollectiveOps & DW_BIT(kind)) != 0 &&
        (row.dtypes & DW_BIT(static_cast<int>(dtype))) != 0 &&
        (row.reductions & bit) != 0 && bytes >= row.min_bytes &&
        (row.max_bytes == 0 || bytes <= row.max_bytes))
      return *unlimited_;
  return *this;
}

bool Capabilities::supports_kind(uint16_t kind) const {
  return std::any_of(reductions_[kind].begin(), reductions_[kind].end(),
                     [](uint16_t bits) { return bits != 0; });
}

}  // namespace distwrap::comm
