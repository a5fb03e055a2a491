// The name of an element type of the C ABI.
#ifndef DISTWRAP_SRC_COMM_DTYPE_TEXT_H_
#define DISTWRAP_SRC_COMM_DTYPE_TEXT_H_

#include "distwrap/abi/types.h"

#include <absl/strings/string_view.h>

namespace distwrap::comm {

// "f32"; empty for an unknown type.
constexpr absl::string_view dtype_text(dw_dtype dtype) {
#define DW_DTYPE(index, name, enumerator, text, dl_code, dl_bits, storage) \
  if (dtype.code == (dl_code) && dtype.bits == (dl_bits)) return #text;
#include "distwrap/abi/dtypes.def"
  return "";
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_DTYPE_TEXT_H_
