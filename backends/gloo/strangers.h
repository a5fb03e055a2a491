// Keeps connections of other hosts away from Gloo's listeners. Gloo takes the
// first connection that arrives, and bytes that are not its peer's end the
// process. A socket filter in the kernel drops the packets of all hosts but the
// peer's, before a connection exists. On one host the listeners are on the
// loopback interface, where only processes of this host arrive.
//
// Threads: the one that builds a communicator.
#ifndef DISTWRAP_BACKENDS_GLOO_STRANGERS_H_
#define DISTWRAP_BACKENDS_GLOO_STRANGERS_H_

#include "address.h"
#include "sdk/host_filter.h"

#include <vector>

namespace gloo_backend {

using dw_sdk::HostAddress;

// A listener of this process, and the host whose packets it takes.
struct Listener {
  Address address;
  const std::vector<HostAddress>* from;
};
// Filters all listeners; false, with errno, when one was not found or the
// kernel refuses.
bool keep_strangers_out(const std::vector<Listener>& listeners);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_STRANGERS_H_
