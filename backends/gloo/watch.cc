#include "watch.h"

#include <cerrno>
#include <mutex>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace gloo_backend {
namespace {

// Told once, then asked for again as long as there is something left.
constexpr int kEnd =
    static_cast<int>(EPOLLRDHUP) | static_cast<int>(EPOLLONESHOT);

}  // namespace

class Watch::Connection : public gloo::transport::tcp::Handler {
 public:
  Connection(Device& device, Peers& peers, int rank, int descriptor)
      : device_(device), peers_(peers), rank_(rank), descriptor_(descriptor) {}

  void begin() { device_.tcp().registerDescriptor(descriptor_, kEnd, this); }
  void end() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    device_.tcp().unregisterDescriptor(descriptor_, this);
    // Gloo's thread has left; this says so to whoever checks by locks.
    std::lock_guard<std::mutex> lock(mutex_);
  }

  // This thread is the one that takes what comes, so what was taken was also
  // given to its receiver.
  void handleEvents(int /*events*/) override {
    std::lock_guard<std::mutex> lock(mutex_);
    char byte;
    const ssize_t left = recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (left == 0 || (left < 0 && errno != EINTR)) return peers_.lose(rank_);
    // Gloo is about to take the rest, unless it has given up as well.
    if (!ended_ && !peers_.is_lost(rank_)) begin();
  }

 private:
  Device& device_;
  Peers& peers_;
  const int rank_;
  const int descriptor_;
  std::mutex mutex_;
  bool ended_ = false;
};

Watch::Watch(Device& device, const Sockets& sockets, Peers& peers) {
  for (const Sockets::Held& held : sockets.held()) {
    connections_.push_back(std::make_unique<Connection>(
        device, peers, held.rank, held.descriptor));
    connections_.back()->begin();
  }
}

Watch::~Watch() {
  for (const auto& connection : connections_) connection->end();
}

}  // namespace gloo_backend
