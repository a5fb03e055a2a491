// Transfers with peers. Every wait for a transfer ends when its peer is lost.
//
// Gloo forgets a message whose connection breaks in the middle, and a thread
// that waits for the message waits for ever. Each of Gloo's buffers is
// therefore used for one peer only, all buffers are known, and the thread that
// notices the end of a peer's connection interrupts all waits for that peer.
//
// Buffers are reused, because the destruction of a buffer waits until Gloo's
// thread has released it, and that thread has just woken the destroying thread.
#ifndef DISTWRAP_BACKENDS_GLOO_LANES_H_
#define DISTWRAP_BACKENDS_GLOO_LANES_H_

#include "device.h"

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gloo_backend {

enum class Direction { kSend, kReceive };

class Lane;

// Work that a waiting thread can do meanwhile.
class Meanwhile {
 public:
  // Waits until one more transfer of the lane is complete.
  virtual void finish(Lane& lane, Direction direction) = 0;

 protected:
  ~Meanwhile() = default;
};

// The lost peers. Threads: any. Outlives the lanes.
class Peers {
 public:
  Peers(Device& device, std::shared_ptr<gloo::transport::Context> context);

  // Everything that this peer has sent was received, and nothing more will
  // come.
  void lose(int peer);
  // Ends all waits: the communicator and its connections are over. Before that,
  // the loss of one peer does not end the connections to others, because a rank
  // that sees a connection end asks for the reason, which the host must know by
  // then.
  void end();
  bool is_lost(int peer) const {
    return lost_[static_cast<size_t>(peer)].load(std::memory_order_acquire);
  }

 private:
  friend class Lane;

  Device& device_;
  const std::shared_ptr<gloo::transport::Context> context_;
  std::atomic<bool> ended_{false};
  std::vector<std::atomic<bool>> lost_;
  std::mutex mutex_;
  std::vector<Lane*> lanes_;
};

// One of Gloo's buffers, for one peer. Transfers of one direction are waited
// for in the order in which they began.
//
// Threads: one at a time, except `let_go` from any. When a lane has been
// destroyed, Gloo does not touch the memory of its transfers any more.
class Lane {
 public:
  // Without `meanwhile`, a waiting thread does nothing else.
  Lane(Peers& peers, int peer, Meanwhile* meanwhile = nullptr);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  int peer() const { return peer_; }

  // These functions throw Gloo's exceptions; the waits also throw when the peer
  // is lost.
  void send(const void* from, size_t bytes, uint64_t slot) {
    buffer_->send(peer_, slot, reinterpret_cast<size_t>(from), bytes);
  }
  void receive(void* to, size_t bytes, uint64_t slot) {
    buffer_->recv(peer_, slot, reinterpret_cast<size_t>(to), bytes);
  }
  // True: one more transfer is complete. False: another thread has interrupted
  // the wait.
  bool wait(Direction direction);
  void finish(Direction direction) {
    if (meanwhile_ != nullptr) return meanwhile_->finish(*this, direction);
    while (!wait(direction)) {
    }
  }

  // Interrupts the present wait, or else the next one. A thread that waits for
  // a lost peer only checks for data that the peer sent before, and is not
  // interrupted.
  void let_go(Direction direction) {
    if (!peers_.is_lost(peer_)) interrupt(direction);
  }

 private:
  friend class Peers;

  void interrupt(Direction direction);
  bool wait_on(Direction direction, std::chrono::milliseconds limit);
  bool is_complete(Direction direction);

  Peers& peers_;
  const int peer_;
  Meanwhile* const meanwhile_;
  // Covers the whole address space, so that its offsets are addresses.
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

// A lane for each peer, made on first use.
class LaneSet {
 public:
  void attach(Peers* peers, int size, Meanwhile* meanwhile = nullptr) {
    peers_ = peers;
    meanwhile_ = meanwhile;
    lanes_.resize(static_cast<size_t>(size));
  }
  Lane& to(int peer) {
    std::unique_ptr<Lane>& lane = lanes_[static_cast<size_t>(peer)];
    if (lane == nullptr)
      lane = std::make_unique<Lane>(*peers_, peer, meanwhile_);
    return *lane;
  }
  // Called after a failure, so that transfers in flight do not continue.
  void discard() {
    for (std::unique_ptr<Lane>& lane : lanes_) lane.reset();
  }

 private:
  Peers* peers_ = nullptr;
  Meanwhile* meanwhile_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

// Lanes for messages that are in flight at the same time. Threads: any.
class LanePool {
 public:
  void attach(Peers* peers, int size) {
    peers_ = peers;
    unused_.resize(static_cast<size_t>(size));
  }
  std::unique_ptr<Lane> take(int peer);
  // Returns a lane in which nothing is left to complete.
  void give_back(std::unique_ptr<Lane> lane);

 private:
  Peers* peers_ = nullptr;
  std::mutex mutex_;
  std::vector<std::vector<std::unique_ptr<Lane>>> unused_;  // by peer
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_LANES_H_
