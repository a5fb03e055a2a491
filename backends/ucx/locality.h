// Which host this process is on.
#ifndef DISTWRAP_BACKENDS_UCX_LOCALITY_H_
#define DISTWRAP_BACKENDS_UCX_LOCALITY_H_

#include <string>

namespace ucx_backend {

// Equal for processes that share a boot of a machine and a network namespace.
// `forced`, where not empty, says it instead.
std::string host_identity(const std::string& forced);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_LOCALITY_H_
