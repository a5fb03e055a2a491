#include "library.h"

#include "sdk/fail.h"
#include "sdk/thread.h"

#include <dlfcn.h>

namespace nccl_backend {
namespace {

int32_t refuse(dw_error* error, const std::string& what) {
  return dw_fail(error, DW_UNAVAILABLE, DW_REASON_BACKEND_FAILED, -1, 0,
                 ("nccl: " + what).c_str());
}

void* open_file(const std::string& path) {
  // A library that starts threads must not give them the program's signals.
  const dw_sdk::SignalsBlocked blocked;
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

std::string why_not(const std::string& path) {
  const char* const why = dlerror();
  return why != nullptr ? why : path + " cannot be opened";
}

template <typename Function>
bool find(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

}  // namespace

std::string version_text(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) +
         "." + std::to_string(code % 100);
}

std::string Driver::error_name(int result) const {
  const char* name = nullptr;
  if (cuGetErrorName == nullptr ||
      cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
    return "CUDA error " + std::to_string(result);
  return name;
}

int32_t open_driver(const std::string& path, Driver* driver, dw_error* error) {
  void* const handle = open_file(path);
  if (handle == nullptr)
    return refuse(error, "no CUDA driver: " + why_not(path) +
                             "; use a machine with an NVIDIA driver, or name "
                             "its file by the hint cuda_driver");
  Driver found;
  const char* missing = nullptr;
#define CUDA_SYMBOL(type, name, parameters) \
  if (!find(handle, #name, &found.name)) missing = #name;
#define CUDA_OPTIONAL(type, name, parameters) find(handle, #name, &found.name);
#include "symbols.def"
  if (missing != nullptr)
    return refuse(error, path + " has no " + missing +
                             "; the driver of CUDA 11.0 or newer is needed");
  if (int result = found.cuInit(0); result != CUDA_SUCCESS)
    return refuse(
        error, "the CUDA driver does not start: " + found.error_name(result) +
                   "; nvidia-smi and CUDA_VISIBLE_DEVICES tell which GPUs this "
                   "process may use");
  *driver = found;
  return DW_OK;
}

int32_t open_nccl(const std::string& path, Nccl* nccl, dw_error* error) {
  const std::string needed = "; NCCL " + version_text(kLeastVersion) +
                             " or newer is needed (PyPI: nvidia-nccl-cu12)";
  void* const handle = open_file(path);
  if (handle == nullptr) return refuse(error, why_not(path) + needed);
  Nccl found;
  if (!find(handle, "ncclGetVersion", &found.ncclGetVersion))
    return refuse(error, path + " is not NCCL: it has no ncclGetVersion");
  if (found.ncclGetVersion(&found.version) != ncclSuccess)
    return refuse(error, path + " does not tell its version");
  if (found.version < kLeastVersion)
    return refuse(error,
                  path + " is NCCL " + version_text(found.version) + needed);
  const char* missing = nullptr;
#define NCCL_SYMBOL(type, name, parameters) \
  if (!find(handle, #name, &found.name)) missing = #name;
#define NCCL_OPTIONAL(type, name, parameters) find(handle, #name, &found.name);
#include "symbols.def"
  if (missing != nullptr)
    return refuse(error, path + ", NCCL " + version_text(found.version) +
                             ", has no " + missing + needed);
  *nccl = found;
  return DW_OK;
}

int32_t fail_nccl(const Nccl& nccl, const char* what, int result,
                  ncclComm* comm, dw_error* error) {
  std::string text =
      std::string("nccl: ") + what + ": " + nccl.ncclGetErrorString(result);
  const char* const last = nccl.ncclGetLastError(comm);
  if (last != nullptr && last[0] != '\0') text += std::string(": ") + last;
  if (result == ncclRemoteError)
    return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, -1, result,
                   text.c_str());
  return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, result,
                 text.c_str());
}

int32_t fail_driver(const Driver& driver, const char* what, int result,
                    dw_error* error) {
  const std::string text =
      std::string("nccl: ") + what + ": " + driver.error_name(result);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1,
                   result, text.c_str());
  return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, result,
                 text.c_str());
}

}  // namespace nccl_backend
