// Programs that the process starts would inherit the sockets that UCX opens,
// and would hide a rank's end from its peers.
#ifndef DISTWRAP_BACKENDS_UCX_NEW_SOCKETS_H_
#define DISTWRAP_BACKENDS_UCX_NEW_SOCKETS_H_

#include <vector>

namespace ucx_backend {

// Makes exec close the sockets that were opened in its scope. (Sockets that
// another thread has opened meanwhile are included.)
class NewSockets {
 public:
  NewSockets();
  ~NewSockets();
  // Listeners of TCP among them.
  std::vector<int> listeners() const;
  NewSockets(const NewSockets&) = delete;
  NewSockets& operator=(const NewSockets&) = delete;

 private:
  std::vector<int> before_;  // sorted
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_NEW_SOCKETS_H_
