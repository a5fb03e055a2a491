// UCX, opened at run time: one build serves 1.13 and everything newer, and a
// machine without UCX has a backend that says so when it is asked for.
#ifndef DISTWRAP_BACKENDS_UCX_LIBRARY_H_
#define DISTWRAP_BACKENDS_UCX_LIBRARY_H_

#include "distwrap/abi/types.h"

#include <string>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

namespace ucx_backend {

// The oldest version that has all that is used.
inline constexpr unsigned kLeastMajor = 1, kLeastMinor = 13;
// The name by which every version is installed.
inline constexpr char kLibraryName[] = "libucp.so.0";

// Its functions, by their names.
struct Library {
#define UCX_SYMBOL(name) decltype(&::name) name = nullptr;
#define UCX_OPTIONAL(name) decltype(&::name) name = nullptr;
#include "symbols.def"
  unsigned major = 0, minor = 0, release = 0;

  std::string version() const;
};

// Opens the library at `path`, or of that name where the system finds it; it
// stays open for good. Signal handlers are as before. DW_OK, or an error that
// names the versions.
int32_t open_library(const std::string& path, Library* library,
                     dw_error* error);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_LIBRARY_H_
