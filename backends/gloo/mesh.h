// Gloo's connections, made by the host's rounds instead of a store.
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

  // Of the listener for `peer`, in Gloo's form; empty for the own rank.
  const Address& listener(int peer) const;

  // Connects to the peers that this rank calls: their listeners are open, and
  // the kernel answers for them.
  void call(const std::vector<Address>& peers);
  // Waits for those that call this rank: all have, once the round is over.
  void answer(const std::vector<Address>& peers);

  Peers& peers() { return peers_; }

  // The connections as they are found among the process's sockets.
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
