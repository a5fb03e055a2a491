#include "bench/replay/names.h"

#include "comm/op_shape.h"
#include "distwrap/abi/types.h"

namespace distwrap::bench {

std::optional<uint16_t> kind_of(absl::string_view name) {
  for (uint16_t kind = DW_OP_BARRIER; kind <= DW_OP_RECV; ++kind)
    if (name == comm::op_shape(kind).name) return kind;
  return std::nullopt;
}

std::optional<DType> dtype_of_name(absl::string_view name) {
#define DW_DTYPE(index, c_name, enumerator, text, code, bits, storage) \
  if (name == #text) return DType::enumerator;
#include "distwrap/abi/dtypes.def"
  return std::nullopt;
}

std::optional<ReduceOp::Kind> reduction_of(absl::string_view name) {
#define DW_REDUCTION(value, c_name, enumerator, text, takes, meaning) \
  if (name == #text && (value) != DW_REDUCE_PREMUL_SUM)               \
    return ReduceOp::enumerator;
#include "distwrap/abi/reductions.def"
  return std::nullopt;
}

}  // namespace distwrap::bench
