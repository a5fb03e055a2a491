// Notices in Gloo's thread that a connection has ended. For a thread that waits
// for several messages, it also notices arrivals, because Gloo wakes only the
// thread that waits for this very message.
//
// Threads: made and destroyed by the communicator's owner; other calls from
// any.
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
  // `device`, `sockets` and `peers` outlive the watch.
  Watch(Device& device, const Sockets& sockets, Peers& peers);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // While arrivals are wanted, `arrived` is called in Gloo's thread with the
  // rank from which data come. Gloo reads the data in the same turn of its
  // thread.
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
