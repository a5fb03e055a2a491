#include "distwrap/types.h"

#include "distwrap/reduce_op.h"

namespace distwrap {

absl::string_view dtype_name(DType dtype) {
  switch (dtype) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case DType::enumerator:                                            \
    return #text;
#include "distwrap/abi/dtypes.def"
  }
  return "?";
}

absl::string_view reduce_op_name(ReduceOp::Kind kind) {
  switch (kind) {
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  case ReduceOp::enumerator:                                        \
    return #text;
#include "distwrap/abi/reductions.def"
  }
  return "?";
}

}  // namespace distwrap
