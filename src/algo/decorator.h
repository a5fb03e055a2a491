// Code that decorators share: refusing a call in one line, and the slots that
// only pass a call on.
#ifndef DISTWRAP_SRC_ALGO_DECORATOR_H_
#define DISTWRAP_SRC_ALGO_DECORATOR_H_

#include "distwrap/abi/plugin.h"
#include "distwrap/abi/read.h"

#include <cstring>

namespace distwrap::algo {

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
              "no memory for a step of the operation");
}

// Reads the arguments of `setup_begin`. The parent in it still belongs to the
// decorator, not to the backend below.
inline int32_t read_setup(dw_setup_info* info, const dw_setup_info* given,
                          dw_error* error) {
  if (int32_t code =
          dw_read_struct(info, sizeof *info, given, DW_SETUP_INFO_SIZE_1_0))
    return fail(error, code, DW_REASON_INVALID_ARGUMENT,
                "the setup info has a size or a field that is not known");
  return (info->flags & ~DW_FLAGS_OPTIONAL) == DW_SETUP_COMMUNICATOR
             ? DW_OK
             : unsupported(error, "a decorator builds communicators only");
}

// Slots over the backend below. `Backend` has of(dw_backend*), inner(), its
// table, and inner_backend().
template <typename Backend>
struct HandedOn {
  static int32_t wait_fd(dw_backend* backend, int32_t* fd) {
    const Backend& waits = Backend::of(backend);
    return waits.inner().wait_fd == nullptr
               ? DW_UNIMPLEMENTED
               : waits.inner().wait_fd(waits.inner_backend(), fd);
  }

  static int32_t arm(dw_backend* backend) {
    const Backend& arms = Backend::of(backend);
    return arms.inner().arm == nullptr ? DW_UNIMPLEMENTED
                                       : arms.inner().arm(arms.inner_backend());
  }

  static const void* extension(dw_backend* backend, dw_str id, uint32_t minor) {
    const Backend& asked = Backend::of(backend);
    return asked.inner().extension == nullptr
               ? nullptr
               : asked.inner().extension(asked.inner_backend(), id, minor);
  }

  static int32_t mem_alloc(dw_backend* backend, uint64_t bytes, dw_mem** mem,
                           void** address, dw_error* error) {
    const Backend& gives = Backend::of(backend);
    return gives.inner().mem_alloc == nullptr
               ? unsupported(error, "the backend below has no memory")
               : gives.inner().mem_alloc(gives.inner_backend(), bytes, mem,
                                         address, error);
  }

  static int32_t mem_register(dw_backend* backend, void* address,
                              uint64_t bytes, dw_mem** mem, dw_error* error) {
    const Backend& told = Backend::of(backend);
    return told.inner().mem_register == nullptr
               ? unsupported(error, "the backend below registers no memory")
               : told.inner().mem_register(told.inner_backend(), address, bytes,
                                           mem, error);
  }

  static int32_t mem_release(dw_backend* backend, dw_mem* mem,
                             dw_error* error) {
    const Backend& had = Backend::of(backend);
    return had.inner().mem_release == nullptr
               ? unsupported(error, "the backend below has no memory")
               : had.inner().mem_release(had.inner_backend(), mem, error);
  }

  static constexpr void fill(dw_backend_api* api) {
    api->wait_fd = wait_fd;
    api->mem_alloc = mem_alloc;
    api->mem_register = mem_register;
    api->mem_release = mem_release;
    api->arm = arm;
    api->extension = extension;
  }
};

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_DECORATOR_H_
