#include "waits.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace gloo_backend {
namespace {

using gloo::transport::UnboundBuffer;

// Long enough for Gloo to look whether an operation is complete. When it is
// not, Gloo closes every connection, which by then is what has to happen.
constexpr std::chrono::milliseconds kLook(1);

// Real buffers that wait for use; each is a few hundred bytes.
constexpr size_t kKept = 256;

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
  WatchedBuffer(WatchedContext& context, void* memory, size_t bytes)
      : UnboundBuffer(memory, bytes),
        context_(context),
        waits_(context.waits()) {}

  ~WatchedBuffer() override {
    if (!is_clean()) return;
    for (auto& [rank, buffer] : real_) context_.give_back(std::move(buffer));
  }

  void send(int peer, uint64_t slot, size_t offset, size_t bytes) override {
    begin(Way::kSend, peer);
    real(peer).send(peer, slot, address(offset), length(offset, bytes));
  }
  void recv(int peer, uint64_t slot, size_t offset, size_t bytes) override {
    begin(Way::kReceive, peer);
    real(peer).recv(peer, slot, address(offset), length(offset, bytes));
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

  void begin(Way way, int peer) {
    std::vector<int>& peers = begun(way).peers;
    if (peers.empty()) peers.reserve(8);
    peers.push_back(peer);
  }

  size_t address(size_t offset) const {
    return reinterpret_cast<size_t>(ptr) + offset;
  }
  size_t length(size_t offset, size_t bytes) const {
    return bytes == kUnspecifiedByteCount ? size - offset : bytes;
  }

  bool is_clean() {
    for (const Begun& all : begun_)
      if (all.waited != all.peers.size()) return false;
    return !let_go_ && !waits_.is_any_lost();
  }

  int oldest(Way way) {
    Begun& all = begun(way);
    if (all.waited == all.peers.size())
      throw gloo::InvalidOperationException("nothing to wait for");
    return all.peers[all.waited];
  }

  UnboundBuffer& real(int peer) {
    for (auto& [rank, buffer] : real_)
      if (rank == peer) return *buffer;
    real_.emplace_back(peer, context_.take_real());
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
    let_go_ = true;
    for (auto& [rank, buffer] : real_) let_go_of(*buffer, way);
  }

  WatchedContext& context_;
  Waits& waits_;
  std::vector<std::pair<int, std::unique_ptr<UnboundBuffer>>> real_;
  Begun begun_[2];
  bool let_go_ = false;
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

bool Waits::is_any_lost() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::find(lost_.begin(), lost_.end(), true) != lost_.end();
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
  return std::make_unique<WatchedBuffer>(*this, memory, bytes);
}

std::unique_ptr<UnboundBuffer> WatchedContext::take_real() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (unused_.empty()) {
    lock.unlock();
    return real_->createUnboundBuffer(nullptr, SIZE_MAX);
  }
  std::unique_ptr<UnboundBuffer> buffer = std::move(unused_.back());
  unused_.pop_back();
  return buffer;
}

void WatchedContext::give_back(std::unique_ptr<UnboundBuffer> buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (unused_.size() < kKept) unused_.push_back(std::move(buffer));
}

}  // namespace gloo_backend
