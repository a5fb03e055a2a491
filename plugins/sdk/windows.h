/* Checks that every backend with windows makes. */
#ifndef DISTWRAP_PLUGINS_SDK_WINDOWS_H_
#define DISTWRAP_PLUGINS_SDK_WINDOWS_H_

#include "distwrap/abi/types.h"

/* Whether `op` is an operation on a window; NULL is not. */
static inline int dw_is_of_window(const dw_op* op) {
  return op != NULL && op->kind >= DW_OP_PUT && op->kind <= DW_OP_FENCE;
}

/* Whether a signal's value fulfils a wait for `with`. `compare` is
 * DW_COMPARE_EQ to DW_COMPARE_GE. */
static inline int dw_signal_holds(uint64_t value, uint16_t compare,
                                  uint64_t with) {
  switch (compare) {
    case DW_COMPARE_EQ:
      return value == with;
    case DW_COMPARE_NE:
      return value != with;
    case DW_COMPARE_LT:
      return value < with;
    case DW_COMPARE_LE:
      return value <= with;
    case DW_COMPARE_GT:
      return value > with;
    default:
      return value >= with;
  }
}

#endif /* DISTWRAP_PLUGINS_SDK_WINDOWS_H_ */
