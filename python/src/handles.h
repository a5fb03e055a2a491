// Handles of the C API that several parts of the module use.
//
// Threads: with the GIL.
#ifndef DISTWRAP_PYTHON_SRC_HANDLES_H_
#define DISTWRAP_PYTHON_SRC_HANDLES_H_

#include "distwrap/c.h"

#include <cstdint>
#include <nanobind/nanobind.h>

namespace distwrap_python {

// A list of texts or bytes that a call has returned.
struct List {
  distwrap_list handle = nullptr;
  List() = default;
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() { distwrap_list_free(handle); }

  uint64_t size() const { return distwrap_list_size(handle); }
  distwrap_bytes item(uint64_t i) const {
    distwrap_bytes bytes = {};
    distwrap_list_item(handle, i, &bytes, nullptr);
    return bytes;
  }
  nanobind::bytes bytes(uint64_t i) const {
    const distwrap_bytes one = item(i);
    return nanobind::bytes(one.data, one.size);
  }
  nanobind::list texts() const {
    nanobind::list all;
    for (uint64_t i = 0; i < size(); ++i) {
      const distwrap_bytes one = item(i);
      all.append(nanobind::str(static_cast<const char*>(one.data), one.size));
    }
    return all;
  }
};

}  // namespace distwrap_python

#endif  // DISTWRAP_PYTHON_SRC_HANDLES_H_
