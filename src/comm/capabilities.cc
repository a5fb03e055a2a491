#include "comm/capabilities.h"

#include "distwrap/tensor_view.h"

#include <algorithm>

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

Capabilities::Capabilities(absl::Span<const dw_caps_row> rows,
                           int32_t device_type)
    : device_type_(device_type),
      memory_(internal::ViewAccess::place({device_type, 0})) {
  for (const dw_caps_row& row : rows) {
    if ((row.memory & DW_BIT(device_type)) == 0) continue;
    // Promises that hold for some sizes only are of use where a host chooses
    // between backends by size; one backend alone must serve every size.
    if (row.min_bytes != 0 || row.max_bytes != 0) continue;
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
}

bool Capabilities::supports_kind(uint16_t kind) const {
  return std::any_of(reductions_[kind].begin(), reductions_[kind].end(),
                     [](uint16_t bits) { return bits != 0; });
}

}  // namespace distwrap::comm
