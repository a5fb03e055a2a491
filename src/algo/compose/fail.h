// Refusing a call in one line.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_FAIL_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_FAIL_H_

#include "distwrap/abi/types.h"

#include <cstring>

namespace distwrap::algo::compose {

// Fills `error` unless it is NULL and returns `code`.
inline int32_t fail(dw_error* error, int32_t code, uint16_t reason,
                    const char* text) {
  if (error == nullptr) return code;
  *error = {};
  error->code = static_cast<int16_t>(code);
  error->reason = reason;
  error->peer = -1;
  std::strncpy(error->text, text, sizeof error->text - 1);
  return code;
}

inline int32_t invalid(dw_error* error, const char* text) {
  return fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, text);
}

inline int32_t unsupported(dw_error* error, const char* text) {
  return fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, text);
}

inline int32_t no_memory(dw_error* error) {
  return fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY,
              "no memory to compose the operation");
}

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_FAIL_H_
