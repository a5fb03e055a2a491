// The network interface that UCX's TCP transport is to use between hosts.
#ifndef DISTWRAP_BACKENDS_UCX_INTERFACE_H_
#define DISTWRAP_BACKENDS_UCX_INTERFACE_H_

#include <string>

namespace ucx_backend {

// The name of the interface that has this address of the host. "" when none has
// it, and where the host has RDMA devices, which UCX prefers and which belong
// to no such interface: then UCX chooses by itself.
std::string interface_with(const std::string& address);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_INTERFACE_H_
