/* The first checks of `open`, `setup_begin` and `window_create`, for a backend
 * of host memory. */
#ifndef DISTWRAP_PLUGINS_SDK_OPEN_H_
#define DISTWRAP_PLUGINS_SDK_OPEN_H_

#include "distwrap/abi/plugin.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

/* Reads the host's struct into `info`. Refuses other devices, required
 * extensions, and hints outside of `known`. */
static inline int32_t dw_read_open(dw_open_info* info,
                                   const dw_open_info* given,
                                   const dw_str* known, uint64_t n_known,
                                   dw_error* error) {
  const int32_t code = dw_read_struct(info, (uint32_t)sizeof *info, given,
                                      DW_OPEN_INFO_SIZE_1_0);
  if (code != DW_OK)
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the open info has a size or a field that is not known");
  if (info->device_type != DW_DEVICE_CPU)
    return dw_unsupported(error, "only host memory is supported");
  if (dw_check_extensions(info->next) != DW_OK)
    return dw_unsupported(error, "no extension is supported");
  if (dw_unknown_hint(info->hints, info->n_hints, known, n_known) != NULL)
    return dw_invalid(
        error, n_known == 0 ? "there are no hints" : "a hint is not known");
  return DW_OK;
}

/* Reads the order to build a communicator. Refuses other kinds of setup, ranks
 * outside of the group, required extensions, and hints outside of `known`. */
static inline int32_t dw_read_setup(dw_setup_info* info,
                                    const dw_setup_info* given,
                                    const dw_str* known, uint64_t n_known,
                                    dw_error* error) {
  const int32_t code = dw_read_struct(info, (uint32_t)sizeof *info, given,
                                      DW_SETUP_INFO_SIZE_1_0);
  if (code != DW_OK)
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the setup info has a size or a field that is not known");
  if ((info->flags & ~DW_FLAGS_OPTIONAL) != DW_SETUP_COMMUNICATOR)
    return dw_unsupported(error, "only communicators can be built");
  if (dw_check_extensions(info->next) != DW_OK)
    return dw_unsupported(error, "no extension is supported");
  if (info->size < 1 || info->rank < 0 || info->rank >= info->size)
    return dw_invalid(error, "the rank is not within the size");
  if (dw_unknown_hint(info->hints, info->n_hints, known, n_known) != NULL)
    return dw_invalid(
        error, n_known == 0 ? "there are no hints" : "a hint is not known");
  return DW_OK;
}

/* Reads the order to build a window. Refuses other kinds of setup, memory
 * other than the host's, required extensions, and all hints. */
static inline int32_t dw_read_window(dw_setup_info* info,
                                     const dw_setup_info* given,
                                     const dw_comm* comm, dw_error* error) {
  const int32_t code = dw_read_struct(info, (uint32_t)sizeof *info, given,
                                      DW_SETUP_INFO_SIZE_1_0);
  if (code != DW_OK)
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the setup info has a size or a field that is not known");
  if ((info->flags & ~DW_FLAGS_OPTIONAL) != DW_SETUP_WINDOW)
    return dw_unsupported(error, "only windows can be built here");
  if (dw_check_extensions(info->next) != DW_OK)
    return dw_unsupported(error, "no extension is supported");
  if (info->n_hints != 0) return dw_invalid(error, "a window has no hints");
  if (info->parent != comm || info->size < 1 || info->rank < 0 ||
      info->rank >= info->size)
    return dw_invalid(error, "the window is of another communicator");
  if (info->memory.count < 0 || info->memory.parts != NULL ||
      info->memory.counts != NULL || info->memory.dtype.bits % 8 != 0)
    return dw_invalid(error, "the window's memory is no flat buffer");
  return DW_OK;
}

#endif /* DISTWRAP_PLUGINS_SDK_OPEN_H_ */
