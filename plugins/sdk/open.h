/* The first lines of `open` and of `setup_begin`, for a backend of host memory.
 */
#ifndef DISTWRAP_PLUGINS_SDK_OPEN_H_
#define DISTWRAP_PLUGINS_SDK_OPEN_H_

#include "distwrap/abi/plugin.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

/* Reads what the host gives into `info` and refuses other devices, extensions
 * that are required, and hints that are not among `known`. */
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

/* Likewise for a setup: refuses what is no communicator, ranks outside of the
 * group, extensions, and hints that are not among `known`. */
static inline int32_t dw_read_setup(dw_setup_info* info,
                                    const dw_setup_info* given,
                                    const dw_str* known, uint64_t n_known,
                                    dw_error* error) {
  const int32_t code = dw_read_struct(info, (uint32_t)sizeof *info, given,
                                      DW_SETUP_INFO_SIZE_1_0);
  if (code != DW_OK)
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the setup info has a size or a field that is not known");
  if (info->flags != DW_SETUP_COMMUNICATOR)
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

/* The first lines of `window_create`: refuses what is no window of this
 * communicator, other memory than the host's, extensions and hints. */
static inline int32_t dw_read_window(dw_setup_info* info,
                                     const dw_setup_info* given,
                                     const dw_comm* comm, dw_error* error) {
  const int32_t code = dw_read_struct(info, (uint32_t)sizeof *info, given,
                                      DW_SETUP_INFO_SIZE_1_0);
  if (code != DW_OK)
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the setup info has a size or a field that is not known");
  if (info->flags != DW_SETUP_WINDOW)
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
