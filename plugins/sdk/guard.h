// Slots that throw nothing. Exceptions must not cross the C ABI: a slot that
// allocates runs its body in here, and what the body throws becomes an error.
//
//   int32_t setup_begin(..., dw_error* error) {
//     return dw_sdk::guarded("my backend: a setup", error, [&] { ... });
//   }
//
// If the body throws, destructors have to undo what it began. A body that needs
// more catches the exception itself and calls `error_of_exception`.
#ifndef DISTWRAP_PLUGINS_SDK_GUARD_H_
#define DISTWRAP_PLUGINS_SDK_GUARD_H_

#include "sdk/fail.h"
#include "sdk/limits.h"

#include <cstdio>
#include <cxxabi.h>
#include <exception>
#include <new>
#include <stdexcept>

namespace dw_sdk {

// "<what>: no memory; limit: `ulimit -v` (RLIMIT_AS), now 100000 KiB".
inline int32_t fail_memory(const char* what, dw_error* error) {
  char limits[DW_LIMITS_TEXT], text[sizeof error->text];
  dw_say_memory_limits(limits, sizeof limits);
  std::snprintf(text, sizeof text, "%s: no memory%s%s", what,
                limits[0] == '\0' ? "" : "; limit: ", limits);
  return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                 text);
}

// Makes the error of the exception that is being handled. Call it within a
// `catch`. The exception that ends a cancelled thread is thrown again.
inline int32_t error_of_exception(const char* what, dw_error* error) {
  try {
    throw;
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (const std::bad_alloc&) {
    return fail_memory(what, error);
  } catch (const std::length_error&) {  // a container that would be too large
    return fail_memory(what, error);
  } catch (const std::exception& other) {
    char text[sizeof error->text];
    std::snprintf(text, sizeof text, "%s: %s", what, other.what());
    return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0, text);
  } catch (...) {
    return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0, what);
  }
}

template <class Body>
int32_t guarded(const char* what, dw_error* error, const Body& body) {
  try {
    return body();
  } catch (...) {
    return error_of_exception(what, error);
  }
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_GUARD_H_
