/* Reads structs of the host: operations, extensions, hints.
 *
 *   dw_op space;
 *   const dw_op* op;
 *   int32_t code = dw_read_op(&space, &op, incoming);
 *   if (code == DW_OK) code = dw_check_extensions(op->next);
 *   if (code != DW_OK) return dw_fail(error, code, ...); */
#ifndef DISTWRAP_PLUGINS_SDK_READ_OP_H_
#define DISTWRAP_PLUGINS_SDK_READ_OP_H_

#include "distwrap/abi/read.h"

static inline int dw_str_equal(dw_str a, dw_str b) {
  return a.size == b.size &&
         (a.size == 0 || __builtin_memcmp(a.data, b.data, a.size) == 0);
}

/* Applies the reading rule of the ABI to an operation, without a copy when the
 * host's struct has the same size as the plugin's. `*op` is valid as long as
 * both `space` and `in` are. */
static inline int32_t dw_read_op(dw_op* space, const dw_op** op,
                                 const dw_op* in) {
  if (in != NULL && in->struct_size == sizeof(dw_op)) {
    *op = in;
    return DW_OK;
  }
  *op = space;
  return dw_read_struct(space, (uint32_t)sizeof(dw_op), in, DW_OP_SIZE_1_0);
}

/* The extension with this id in a chain; NULL: there is none. */
static inline const dw_ext* dw_find_extension(const dw_ext* next, dw_str id) {
  while (next != NULL && !dw_str_equal(next->id, id)) next = next->next;
  return next;
}

/* Refuses extensions that are required and not among the known ones, and skips
 * others. DW_OK or DW_UNIMPLEMENTED. */
static inline int32_t dw_check_known_extensions(const dw_ext* next,
                                                const dw_str* known,
                                                uint64_t n_known) {
  uint64_t k;
  for (; next != NULL; next = next->next) {
    if ((next->flags & DW_EXT_REQUIRED) == 0) continue;
    for (k = 0; k < n_known; ++k)
      if (dw_str_equal(next->id, known[k])) break;
    if (k == n_known) return DW_UNIMPLEMENTED;
  }
  return DW_OK;
}

/* For a backend without extensions: skips optional ones and refuses required
 * ones. */
static inline int32_t dw_check_extensions(const dw_ext* next) {
  return dw_check_known_extensions(next, NULL, 0);
}

/* The value of a hint; `data` is NULL when the hint is not given. The last
 * value wins. */
static inline dw_str dw_find_hint(const dw_hint* hints, uint64_t n,
                                  dw_str key) {
  dw_str none = {NULL, 0};
  while (n-- > 0)
    if (dw_str_equal(hints[n].key, key)) return hints[n].value;
  return none;
}

/* The first hint that is not among the known ones; NULL when all are known. */
static inline const dw_hint* dw_unknown_hint(const dw_hint* hints, uint64_t n,
                                             const dw_str* known,
                                             uint64_t n_known) {
  uint64_t i, k;
  for (i = 0; i < n; ++i) {
    for (k = 0; k < n_known; ++k)
      if (dw_str_equal(hints[i].key, known[k])) break;
    if (k == n_known) return &hints[i];
  }
  return NULL;
}

#endif /* DISTWRAP_PLUGINS_SDK_READ_OP_H_ */
