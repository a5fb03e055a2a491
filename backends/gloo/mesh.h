// Gloo's connections, made in the host's setup rounds instead of over a store.
#ifndef DISTWRAP_BACKENDS_GLOO_MESH_H_
#define DISTWRAP_BACKENDS_GLOO_MESH_H_

#include "address.h"
#include "device.h"
#include "lanes.h"
#include "sockets.h"

#include <gloo/transport/context.h>

#include <chrono>
#include <memory>
#include <vector>

namespace gloo_backend {

class Mesh {
 public:
  // Opens a listener for every peer. `connecting` bounds each `connect`.
  Mesh(Device& device, int rank, int size,
       std::chrono::milliseconds connecting);

  // The listener for `peer`, in Gloo's form; empty for this rank.
  const Address& listener(int peer) const;

  // Connects to the peers that this rank calls. Their listeners are open, so
  // the kernel completes the connections.
  void call(const std::vector<Address>& peers);
  // Waits for the peers that call this rank; after the round all of them have
  // called.
  void answer(const std::vector<Address>& peers);

  Peers& peers() { return peers_; }

  // The descriptions by which the connections are found among the process's
  // sockets.
  std::vector<Sockets::Ends> connections(
      const std::vector<Address>& peers) const;

 private:
  bool calls(int peer, const std::vector<Address>& peers) const;

  const int rank_;
  const int size_;
  const std::shared_ptr<gloo::transport::Context> context_;
  Peers peers_;
  std::vector<Address> listeners_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_MESH_H_
