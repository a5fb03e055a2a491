// The operators of namespace `dw` as functions: ops.def is the list, and
// docs/operators.md says what each one does.
//
// Threads: any; the caller orders threads of which one writes a tensor.
// Ownership: results are the caller's.
//
//   StatusOr<Tensor> y = ops::mm(x, w);
//   Status status = ops::add_(*y, b);
#ifndef DISTWRAP_OPS_H_
#define DISTWRAP_OPS_H_

#include "distwrap/operator.h"
#include "distwrap/random.h"

#include <optional>
#include <vector>

namespace distwrap::ops {

// The C++ signature of each operator.
namespace signatures {
#define DW_OP(name, overload, schema, result, params, args) \
  struct name##_##overload {                                \
    static result function params;                          \
  };
#include "distwrap/ops.def"
}  // namespace signatures

#define DW_OP(name, overload, schema, result, params, args)                   \
  inline dispatch::CallResult<result>::Type name params {                     \
    static const auto op =                                                    \
        dispatch::find_op<decltype(signatures::name##_##overload::function)>( \
            sizeof(#overload) > 1 ? "dw::" #name "." #overload                \
                                  : "dw::" #name);                            \
    return op.call args;                                                      \
  }
#include "distwrap/ops.def"

}  // namespace distwrap::ops

#endif  // DISTWRAP_OPS_H_
