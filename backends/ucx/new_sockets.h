// Sockets that UCX opens stay open in programs that the process starts, which
// would keep a rank's end from its peers.
#ifndef DISTWRAP_BACKENDS_UCX_NEW_SOCKETS_H_
#define DISTWRAP_BACKENDS_UCX_NEW_SOCKETS_H_

#include <vector>

namespace ucx_backend {

// Those that were opened in its scope are closed by exec. (What another thread
// has opened meanwhile, too.)
class NewSockets {
 public:
  NewSockets();
  ~NewSockets();
  NewSockets(const NewSockets&) = delete;
  NewSockets& operator=(const NewSockets&) = delete;

 private:
  std::vector<int> before_;  // sorted
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_NEW_SOCKETS_H_
