/* Refuses a call in one line:
 *
 *   if (op->in.data == NULL)
 *     return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT,
 *                    -1, 0, "the input is NULL"); */
#ifndef DISTWRAP_PLUGINS_SDK_FAIL_H_
#define DISTWRAP_PLUGINS_SDK_FAIL_H_

#include "distwrap/abi/types.h"

/* Fills `error`, unless it is NULL, and returns `code`. `peer` is the rank to
 * blame or -1; `native` is the engine's own code. A long text is cut, but
 * never inside a UTF-8 character. A NULL text becomes an empty one. */
static inline int32_t dw_fail(dw_error* error, int32_t code, uint16_t reason,
                              int32_t peer, int32_t native, const char* text) {
  size_t n = 0;
  if (error == NULL) return code;
  error->code = (int16_t)code;
  error->reason = reason;
  error->peer = peer;
  error->native = native;
  error->flags = 0;
  if (text != NULL) {
    for (; n < sizeof error->text - 1 && text[n] != '\0'; ++n)
      error->text[n] = text[n];
    if (text[n] != '\0')
      while (n > 0 && ((unsigned char)text[n] & 0xC0u) == 0x80u) --n;
  }
  error->text[n] = '\0';
  return code;
}

/* Refuses a call that this backend does not support. */
static inline int32_t dw_unsupported(dw_error* error, const char* text) {
  return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0, text);
}
/* Refuses a call that every backend refuses. */
static inline int32_t dw_invalid(dw_error* error, const char* text) {
  return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1, 0,
                 text);
}

#endif /* DISTWRAP_PLUGINS_SDK_FAIL_H_ */
