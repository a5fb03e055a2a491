#include "watch.h"

#include <cerrno>
#include <mutex>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace gloo_backend {
namespace {

// The event is reported once, and requested again as long as data are left.
constexpr int kEnd =
    static_cast<int>(EPOLLRDHUP) | static_cast<int>(EPOLLONESHOT);
constexpr int kArrival = static_cast<int>(EPOLLIN);

}  // namespace

class Watch::Connection : public gloo::transport::tcp::Handler {
 public:
  Connection(Watch& watch, Device& device, Peers& peers, int rank,
             int descriptor)
      : watch_(watch),
        device_(device),
        peers_(peers),
        rank_(rank),
        descriptor_(descriptor) {}

  void begin() {
    std::lock_guard<std::mutex> lock(mutex_);
    watch();
  }
  void end() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    device_.tcp().unregisterDescriptor(descriptor_, this);
    // Gloo's thread has left; the lock shows this to tools that check
    // synchronisation by locks.
    std::lock_guard<std::mutex> lock(mutex_);
  }
  void want_arrivals() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!tells_ && !ended_ && !peers_.is_lost(rank_)) watch();
  }

  // This thread is also the one that receives data, so everything that was read
  // has been delivered.
  void handleEvents(int events) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if ((events & kArrival) != 0) watch_.arrived(rank_);
    tells_ = false;
    if ((events & ~kArrival) != 0) {
      char byte;
      const ssize_t left = recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (left == 0 || (left < 0 && errno != EINTR)) return peers_.lose(rank_);
    }
    // Gloo is about to read the rest, unless it has given up as well.
    if (!ended_ && !peers_.is_lost(rank_)) watch();
  }

 private:
  void watch() {
    tells_ = watch_.wanted_.load();
    device_.tcp().registerDescriptor(descriptor_,
                                     tells_ ? kEnd | kArrival : kEnd, this);
  }

  Watch& watch_;
  Device& device_;
  Peers& peers_;
  const int rank_;
  const int descriptor_;
  std::mutex mutex_;
  bool ended_ = false;
  bool tells_ = false;  // reports an arrival, once
};

Watch::Watch(Device& device, const Sockets& sockets, Peers& peers) {
  for (const Sockets::Held& held : sockets.held()) {
    connections_.push_back(std::make_unique<Connection>(
        *this, device, peers, held.rank, held.descriptor));
    connections_.back()->begin();
  }
}

Watch::~Watch() {
  for (const auto& connection : connections_) connection->end();
}

void Watch::listen(std::function<void(int)> arrived) {
  std::lock_guard<std::mutex> lock(listening_);
  arrived_ = std::move(arrived);
}

void Watch::arrived(int rank) {
  std::lock_guard<std::mutex> lock(listening_);
  if (arrived_ != nullptr) arrived_(rank);
}

void Watch::want_arrivals(bool wanted) {
  if (wanted_.exchange(wanted) == wanted || !wanted) return;
  for (const auto& connection : connections_) connection->want_arrivals();
}

}  // namespace gloo_backend
