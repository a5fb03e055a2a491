// NCCL and the CUDA driver, opened at run time. One build serves NCCL 2.19 to
// 2.32; on a machine that lacks one of the two, `open` reports that.
//
// The CUDA runtime is not used: a process may hold several copies of it, but
// only one driver, whose streams, events and contexts all runtimes share.
#ifndef DISTWRAP_BACKENDS_NCCL_LIBRARY_H_
#define DISTWRAP_BACKENDS_NCCL_LIBRARY_H_

#include "cuda_types.h"
#include "distwrap/abi/types.h"
#include "nccl_types.h"

#include <string>

namespace nccl_backend {

inline constexpr int kLeastVersion = version_code(2, 19, 0);
// The file names of every installed version.
inline constexpr char kNcclName[] = "libnccl.so.2";
inline constexpr char kDriverName[] = "libcuda.so.1";

// "2.28.9"
std::string version_text(int code);

// The functions of the CUDA driver, by their names. Optional ones may be null.
struct Driver {
#define CUDA_SYMBOL(type, name, parameters) type(*name) parameters = nullptr;
#define CUDA_OPTIONAL(type, name, parameters) type(*name) parameters = nullptr;
#include "symbols.def"

  // "CUDA_ERROR_INVALID_VALUE"
  std::string error_name(int result) const;
};

// The functions of NCCL, by their names. Optional ones may be null.
struct Nccl {
#define NCCL_SYMBOL(type, name, parameters) type(*name) parameters = nullptr;
#define NCCL_OPTIONAL(type, name, parameters) type(*name) parameters = nullptr;
#include "symbols.def"
  int version = 0;
};

// Each function opens a library at `path`, or by name where the system finds
// it. The library stays open for ever. DW_OK, or an error that names what is
// missing or both versions.
int32_t open_driver(const std::string& path, Driver* driver, dw_error* error);
int32_t open_nccl(const std::string& path, Nccl* nccl, dw_error* error);

// Fill `error` with what failed and NCCL's or CUDA's own words. A failure that
// NCCL lays to another rank becomes DW_REASON_PEER_LOST. `comm` may be null.
int32_t fail_nccl(const Nccl& nccl, const char* what, int result,
                  ncclComm* comm, dw_error* error);
int32_t fail_driver(const Driver& driver, const char* what, int result,
                    dw_error* error);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_LIBRARY_H_
