#include "library.h"

#include "quiet.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/limits.h"
#include "sdk/thread.h"

#include <cstdio>
#include <dlfcn.h>

namespace ucx_backend {
namespace {

std::string text_of(unsigned major, unsigned minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

int32_t refuse(dw_error* error, const std::string& what) {
  const std::string text =
      "ucx: " + what + "; UCX " + text_of(kLeastMajor, kLeastMinor) +
      " or newer is needed (Debian: libucx0, PyPI: libucx-cu12)";
  return dw_fail(error, DW_UNAVAILABLE, DW_REASON_BACKEND_FAILED, -1, 0,
                 text.c_str());
}

template <typename Function>
bool find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

}  // namespace

std::string Library::version() const {
  return text_of(major, minor) + "." + std::to_string(release);
}

int32_t check_room(dw_error* error) {
  if (!dw_address_space_is_full(kRoomMiB << 20)) return DW_OK;
  const std::string what = "ucx: UCX needs " + std::to_string(kRoomMiB) +
                           " MiB of free address space, because it ends the "
                           "process when an allocation fails";
  return dw_sdk::fail_memory(what.c_str(), error);
}

int32_t open_library(const std::string& path, Library* library,
                     dw_error* error) {
  if (int32_t code = check_room(error)) return code;
  void* handle;
  {
    const SignalHandlersKept kept;
    const dw_sdk::SignalsBlocked blocked;
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  if (handle == nullptr) {
    const char* const why = dlerror();
    return refuse(error, why != nullptr ? why : path + " cannot be opened");
  }
  Library found;
  if (!find(handle, "ucp_get_version", &found.ucp_get_version))
    return refuse(error, path + " is not UCX: it has no ucp_get_version");
  found.ucp_get_version(&found.major, &found.minor, &found.release);
  if (found.major != kLeastMajor || found.minor < kLeastMinor)
    return refuse(error, path + " is UCX " + found.version());
  const char* missing = nullptr;
#define UCX_SYMBOL(name) \
  if (!find(handle, #name, &found.name)) missing = #name;
#define UCX_OPTIONAL(name) find(handle, #name, &found.name);
#include "symbols.def"
  if (missing != nullptr)
    return refuse(error,
                  path + ", UCX " + found.version() + ", has no " + missing);
  take_log(found);
  *library = found;
  return DW_OK;
}

}  // namespace ucx_backend
