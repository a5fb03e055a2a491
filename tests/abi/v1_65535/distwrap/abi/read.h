/* The reading rule of the distwrap C ABI (growth rule 3 of types.h). */
#ifndef DISTWRAP_ABI_READ_H_
#define DISTWRAP_ABI_READ_H_

#include "distwrap/abi/types.h"

/* Copies an incoming struct that begins with its `struct_size` into `out`, a
 * struct of `out_size` bytes as this side knows it; `min_size` is its size in
 * version 1.0. Sets out's own struct_size to `out_size`.
 *
 * DW_OK; DW_INVALID_ARGUMENT when `in` is NULL or shorter than 1.0 (nothing
 * read); DW_INCOMPATIBLE when it is longer than `out_size` and a byte behind
 * that is not zero: the other side asks for what this side does not know. */
static inline int32_t dw_read_struct(void* out, uint32_t out_size,
                                     const void* in, uint32_t min_size) {
  const unsigned char* from = (const unsigned char*)in;
  unsigned char* to = (unsigned char*)out;
  uint32_t in_size;
  uint32_t i;
  if (in == NULL) return DW_INVALID_ARGUMENT;
  __builtin_memcpy(&in_size, in, sizeof in_size);
  if (in_size < min_size) return DW_INVALID_ARGUMENT;
  for (i = out_size; i < in_size; ++i)
    if (from[i] != 0) return DW_INCOMPATIBLE;
  __builtin_memset(to, 0, out_size);
  __builtin_memcpy(to, from, in_size < out_size ? in_size : out_size);
  __builtin_memcpy(to, &out_size, sizeof out_size);
  return DW_OK;
}

/* The flags that a reader who knows `known` has to refuse (growth rule 5). */
static inline uint32_t dw_unknown_flags(uint32_t flags, uint32_t known) {
  return flags & ~known & ~DW_FLAGS_OPTIONAL;
}

/* Sizes of the structs that can grow in 1.0: frozen. */
#define DW_OP_SIZE_1_0 240u
#define DW_SETUP_INFO_SIZE_1_0 152u
#define DW_OPEN_INFO_SIZE_1_0 56u
#define DW_HOST_INFO_SIZE_1_0 32u
#define DW_HOST_API_SIZE_1_0 96u
#define DW_BACKEND_API_SIZE_1_0 288u
/* Since 1.2: the sizes of later structs in their first version, frozen. */
#define DW_START_SIZE_1_2 80u

#endif /* DISTWRAP_ABI_READ_H_ */
