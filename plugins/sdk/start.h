/* Reads the start of a prepared operation.
 *
 *   dw_start space;
 *   const dw_start* start;
 *   int32_t code = dw_read_start(&space, &start, incoming);
 *   if (code != DW_OK) return dw_fail(error, code, ...);
 *   dw_op op = prepared;
 *   dw_apply_start(start, &op); */
#ifndef DISTWRAP_PLUGINS_SDK_START_H_
#define DISTWRAP_PLUGINS_SDK_START_H_

#include "distwrap/abi/read.h"

/* The flags of an operation that one start has of its own. */
#define DW_START_FLAGS (DW_FLAG_CALLER_WAITS | DW_FLAG_CAPTURE | DW_FLAG_ASIDE)

/* Applies the reading rule of the ABI, without a copy when the host's struct
 * has the same size as the plugin's, and refuses flags that a start cannot
 * have. `*start` is valid as long as both `space` and `in` are. */
static inline int32_t dw_read_start(dw_start* space, const dw_start** start,
                                    const dw_start* in) {
  int32_t code = DW_OK;
  *start = in;
  if (in == NULL || in->struct_size != sizeof(dw_start)) {
    *start = space;
    code = dw_read_struct(space, (uint32_t)sizeof(dw_start), in,
                          DW_START_SIZE_1_2);
  }
  if (code != DW_OK) return code;
  return dw_unknown_flags((*start)->flags, DW_START_FLAGS) == 0
             ? DW_OK
             : DW_UNIMPLEMENTED;
}

/* Writes what the start says into a copy of the prepared operation. */
static inline void dw_apply_start(const dw_start* start, dw_op* op) {
  op->flags |= start->flags;
  if (start->in != NULL) op->in.data = (void*)start->in;
  if (start->out != NULL) op->out.data = start->out;
  op->stream = start->stream;
  op->deadline_ns = start->deadline_ns;
  op->timeout_ns = start->timeout_ns;
  op->seq = start->seq;
  op->trace = start->trace;
}

#endif /* DISTWRAP_PLUGINS_SDK_START_H_ */
