// The key with which NCCL encrypts its TCP connections, from 2.32.3 on. What
// NCCL sends by other networks, such as InfiniBand, is not encrypted.
#ifndef DISTWRAP_BACKENDS_NCCL_ENCRYPTION_H_
#define DISTWRAP_BACKENDS_NCCL_ENCRYPTION_H_

#include "library.h"

#include <string>

namespace nccl_backend {

// Gives NCCL the key in the file, which only this user can read or write. A
// process has one key for all its communicators, so another one is refused.
int32_t set_encryption(const Nccl& nccl, const std::string& file,
                       dw_error* error);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_ENCRYPTION_H_
