// The operators of namespace `dw`, from the table.
#include "distwrap/registration.h"

namespace distwrap::dispatch {

DW_OPERATORS(lib) {
  Namespace dw = lib.own("dw");
#define DW_OP(name, overload, schema, result, params, args) \
  dw.def(sizeof(#overload) > 1 ? #name "." #overload schema : #name schema);
#include "distwrap/ops.def"
}

}  // namespace distwrap::dispatch
