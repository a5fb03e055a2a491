// Notices in Gloo's thread when a connection is at its end.
//
// Threads: made and destroyed by the communicator's owner.
#ifndef DISTWRAP_BACKENDS_GLOO_WATCH_H_
#define DISTWRAP_BACKENDS_GLOO_WATCH_H_

#include "device.h"
#include "lanes.h"
#include "sockets.h"

#include <memory>
#include <vector>

namespace gloo_backend {

class Watch {
 public:
  // All of them outlive the watch.
  Watch(Device& device, const Sockets& sockets, Peers& peers);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  class Connection;

  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_WATCH_H_
