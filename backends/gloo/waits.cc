#include "waits.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gloo_backend {
namespace {

using gloo::transport::UnboundBuffer;

// Long enough for Gloo to look whether an operation is complete. When it is
// not, Gloo closes every connection, which by then is what has to happen.
constexpr std::chrono::milliseconds kLook(1);

bool wait_on(UnboundBuffer& buffer, Way way, int* rank,
             std::chrono::milliseconds limit) {
  return way == Way::kSend ? buffer.waitSend(rank, limit)
                           : buffer.waitRecv(rank, limit);
}

void let_go_of(UnboundBuffer& buffer, Way way) {
  if (way == Way::kSend)
    buffer.abortWaitSend();
  else
    buffer.abortWaitRecv();
}

// One real buffer for each peer, so that every wait has one peer. Operations
// are waited for in the order in which they began.
class WatchedBuffer : public UnboundBuffer {
 public:
  WatchedBuffer(gloo::transport::Context& context, Waits& waits, void* memory,
                size_t bytes)
      : UnboundBuffer(memory, bytes), context_(context), waits_(waits) {}

  void send(int peer, uint64_t slot, size_t offset, size_t bytes) override {
    real(peer).send(peer, slot, offset, bytes);
    begun(Way::kSend).peers.push_back(peer);
  }
  void recv(int peer, uint64_t slot, size_t offset, size_t bytes) override {
    real(peer).recv(peer, slot, offset, bytes);
    begun(Way::kReceive).peers.push_back(peer);
  }
  void recv(std::vector<int>, uint64_t, size_t, size_t) override {
    throw gloo::InvalidOperationException("receives have one source");
  }

  bool waitSend(int* rank, std::chrono::milliseconds limit) override {
    return wait(Way::kSend, rank, limit);
  }
  bool waitRecv(int* rank, std::chrono::milliseconds limit) override {
    return wait(Way::kReceive, rank, limit);
  }

  void abortWaitSend() override { let_go(Way::kSend); }
  void abortWaitRecv() override { let_go(Way::kReceive); }

 private:
  struct Begun {
    std::vector<int> peers;
    size_t waited = 0;
  };

  Begun& begun(Way way) { return begun_[way == Way::kSend ? 0 : 1]; }

  int oldest(Way way) {
    Begun& all = begun(way);
    if (all.waited == all.peers.size())
      throw gloo::InvalidOperationException("nothing to wait for");
    return all.peers[all.waited];
  }

  UnboundBuffer& real(int peer) {
    for (auto& [rank, buffer] : real_)
      if (rank == peer) return *buffer;
    real_.emplace_back(peer, context_.createUnboundBuffer(ptr, size));
    return *real_.back().second;
  }

  bool wait(Way way, int* rank, std::chrono::milliseconds limit) {
    const int peer = oldest(way);
    UnboundBuffer& buffer = real(peer);
    if (!wait_unless_lost(peer, buffer, way, rank, limit)) {
      if (!waits_.is_lost(peer)) return false;
      look(buffer, way, rank);
    }
    ++begun(way).waited;
    return true;
  }

  bool wait_unless_lost(int peer, UnboundBuffer& buffer, Way way, int* rank,
                        std::chrono::milliseconds limit) {
    const Waits::Wait known(waits_, peer, &buffer, way);
    return !known.begins_lost() && wait_on(buffer, way, rank, limit);
  }

  // What a lost peer has left behind: complete, or never to be. Who was let go
  // more than once has to look as often.
  void look(UnboundBuffer& buffer, Way way, int* rank) {
    try {
      while (!wait_on(buffer, way, rank, kLook)) {
      }
    } catch (const gloo::Exception&) {
      throw gloo::IoException("the connection broke within a message");
    }
  }

  // From another thread, while nothing new is begun: so only what does not
  // change by waiting is looked at. A wait that has not begun yet ends at once.
  void let_go(Way way) {
    for (auto& [rank, buffer] : real_) let_go_of(*buffer, way);
  }

  gloo::transport::Context& context_;
  Waits& waits_;
  std::vector<std::pair<int, std::unique_ptr<UnboundBuffer>>> real_;
  Begun begun_[2];
};

}  // namespace

Waits::Wait::Wait(Waits& waits, int peer, UnboundBuffer* buffer, Way way)
    : waits_(waits), peer_(peer), buffer_(buffer), way_(way) {
  std::lock_guard<std::mutex> lock(waits_.mutex_);
  begins_lost_ = waits_.lost_[static_cast<size_t>(peer)];
  waits_.waiting_.push_back(this);
}

Waits::Wait::~Wait() {
  std::lock_guard<std::mutex> lock(waits_.mutex_);
  auto& waiting = waits_.waiting_;
  waiting.erase(std::find(waiting.begin(), waiting.end(), this));
}

void Waits::lose(int peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  lost_[static_cast<size_t>(peer)] = true;
  for (Wait* wait : waiting_)
    if (wait->peer_ == peer) let_go_of(*wait->buffer_, wait->way_);
}

void Waits::lose_all() {
  std::lock_guard<std::mutex> lock(mutex_);
  lost_.assign(lost_.size(), true);
  for (Wait* wait : waiting_) let_go_of(*wait->buffer_, wait->way_);
}

bool Waits::is_lost(int peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  return lost_[static_cast<size_t>(peer)];
}

WatchedContext::WatchedContext(std::shared_ptr<gloo::transport::Context> real)
    : gloo::transport::Context(real->rank, real->size),
      real_(std::move(real)),
      waits_(size) {}

std::unique_ptr<gloo::transport::Pair>& WatchedContext::getPair(int peer) {
  return real_->getPair(peer);
}

std::unique_ptr<gloo::transport::Pair>& WatchedContext::createPair(int peer) {
  return real_->createPair(peer);
}

std::unique_ptr<UnboundBuffer> WatchedContext::createUnboundBuffer(
    void* memory, size_t bytes) {
  return std::make_unique<WatchedBuffer>(*real_, waits_, memory, bytes);
}

}  // namespace gloo_backend
