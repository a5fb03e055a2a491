// The host on which this process runs.
#ifndef DISTWRAP_SRC_BASE_HOST_IDENTITY_H_
#define DISTWRAP_SRC_BASE_HOST_IDENTITY_H_

#include <string>

namespace distwrap::base {

// Equal for processes that can share memory and abstract sockets: the boot of
// the machine and the network namespace. Empty when the system does not tell.
std::string host_identity();

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_HOST_IDENTITY_H_
