// Notices in Gloo's thread when a connection is at its end, and, for who waits
// for several messages, that something has come: Gloo tells of an arrival only
// to who waits for this very message.
//
// Threads: made and destroyed by the communicator's owner; the rest any.
#ifndef DISTWRAP_BACKENDS_GLOO_WATCH_H_
#define DISTWRAP_BACKENDS_GLOO_WATCH_H_

#include "device.h"
#include "lanes.h"
#include "sockets.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace gloo_backend {

class Watch {
 public:
  // All of them outlive the watch.
  Watch(Device& device, const Sockets& sockets, Peers& peers);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // `arrived` is called in Gloo's thread with the rank from which something
  // comes, while that is wanted. Gloo takes it in the same turn of the thread.
  void listen(std::function<void(int)> arrived);
  void want_arrivals(bool wanted);

 private:
  class Connection;

  void arrived(int rank);

  std::atomic<bool> wanted_{false};
  std::mutex listening_;
  std::function<void(int)> arrived_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_WATCH_H_
