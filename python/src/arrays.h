// Memory of the library as arrays of Python: NumPy's where there is NumPy, else
// memoryviews. bfloat16 is an array of ml_dtypes' type or a tensor of torch.
//
// Threads: with the GIL.
#ifndef DISTWRAP_PYTHON_SRC_ARRAYS_H_
#define DISTWRAP_PYTHON_SRC_ARRAYS_H_

#include "distwrap/c.h"

#include <cstdint>
#include <functional>
#include <nanobind/nanobind.h>
#include <string>
#include <vector>

namespace distwrap_python {

// Memory with a shape that exports Python's buffer protocol and DLPack.
// `release` gives the memory back when no array uses it any more.
struct Pages {
  void* data = nullptr;
  distwrap_device device = {DW_DEVICE_CPU, 0};
  dw_dtype dtype = {};
  std::vector<Py_ssize_t> shape, strides;
  std::string format;
  std::function<void()> release;
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (release) release();
  }
};

// Pages over memory; throws what refuses types without a format.
nanobind::object pages_of(const char* call, void* data, dw_dtype dtype,
                          const int64_t* shape, int ndim,
                          std::function<void()> release);
// An array over memory; throws what refuses types of which no library that is
// there has arrays.
nanobind::object array_of(const char* call, void* data, dw_dtype dtype,
                          const int64_t* shape, int ndim,
                          std::function<void()> release);
// The array that array_of gives, over pages.
nanobind::object array_in(const char* call, const nanobind::object& pages);
// A module that the program has imported; None for others.
nanobind::object loaded_module(const char* name);
// The DW_DTYPE_* of a name such as "float32", or of NumPy's or torch's type.
int32_t dtype_of(const char* call, nanobind::handle dtype);

}  // namespace distwrap_python

#endif  // DISTWRAP_PYTHON_SRC_ARRAYS_H_
