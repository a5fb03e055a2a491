// Errors of the C API as Python exceptions.
//
//   check(distwrap_barrier(options, nullptr, &error.handle), error);
//
// Threads: with the GIL.
#ifndef DISTWRAP_PYTHON_SRC_ERROR_H_
#define DISTWRAP_PYTHON_SRC_ERROR_H_

#include "distwrap/c.h"

#include <nanobind/nanobind.h>
#include <string>

namespace distwrap_python {

// The error of one call; freed with the object.
struct Error {
  distwrap_error handle = nullptr;
  Error() = default;
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  ~Error() {
    if (handle != nullptr) distwrap_error_free(handle);
  }
};

// Keeps what makes exceptions, for calls after the end of the modules.
void keep_errors();
// The exception of an error, made by distwrap.errors.
nanobind::object exception_of(int32_t code, distwrap_error error);
// Throws the exception of a failed call.
[[noreturn]] void raise(int32_t code, const Error& error);
inline void check(int32_t code, const Error& error) {
  if (code != DW_OK) [[unlikely]]
    raise(code, error);
}

// Throws a TypeError: "all_reduce: tensor is a list; give a NumPy array".
[[noreturn]] void raise_type(const char* call, const std::string& what,
                             const std::string& next_step);
// The exception of an argument that breaks a rule, made and thrown.
nanobind::object value_error(const char* call, const std::string& what,
                             const std::string& next_step, int32_t reason);
[[noreturn]] void raise_value(const char* call, const std::string& what,
                              const std::string& next_step,
                              int32_t reason = DW_REASON_INVALID_ARGUMENT);
// The name of an object's type.
std::string type_of(nanobind::handle object);

}  // namespace distwrap_python

#endif  // DISTWRAP_PYTHON_SRC_ERROR_H_
