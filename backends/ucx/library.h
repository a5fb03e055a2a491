// UCX, opened at run time: one build serves 1.13 and all newer versions, and on
// a machine without UCX the backend reports that when it is opened.
#ifndef DISTWRAP_BACKENDS_UCX_LIBRARY_H_
#define DISTWRAP_BACKENDS_UCX_LIBRARY_H_

#include "distwrap/abi/types.h"

#include <cstdint>
#include <string>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

namespace ucx_backend {

// The oldest version that has all required functions.
inline constexpr unsigned kLeastMajor = 1, kLeastMinor = 13;
// The file name of every installed version.
inline constexpr char kLibraryName[] = "libucp.so.0";

// The functions of UCX, by their names.
struct Library {
#define UCX_SYMBOL(name) decltype(&::name) name = nullptr;
#define UCX_OPTIONAL(name) decltype(&::name) name = nullptr;
#include "symbols.def"
  unsigned major = 0, minor = 0, release = 0;

  std::string version() const;
};

// UCX asserts that its small allocations succeed, and ends the process when one
// does not. It is called to make something only while the address space has
// this much left: a worker takes a few MiB, a thread's heap 128.
inline constexpr uint64_t kRoomMiB = 256;

// DW_OK, or the error of a limit that leaves UCX less room than that.
int32_t check_room(dw_error* error);

// Opens the library at `path`, or by name where the system finds it. It stays
// open for ever. Signal handlers stay as they were. DW_OK, or an error that
// names the versions.
int32_t open_library(const std::string& path, Library* library,
                     dw_error* error);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_LIBRARY_H_
