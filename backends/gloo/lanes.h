// Transfers with peers. Every wait for one ends when its peer is lost.
//
// Gloo forgets a message in the middle of which the connection breaks: nobody
// is told, and who waits for it waits for ever. So each of its buffers is used
// for one peer only, all of them are known, and the one who notices that a
// peer's connection is at its end lets go of who waits for that peer.
//
// Buffers are used again: who destroys one has to wait until Gloo's thread has
// let go of it, and that thread has just woken him to say that all is done.
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

enum class Way { kSend, kReceive };

class Lane;

// Somebody who has other things to wait for.
class Meanwhile {
 public:
  // Waits until one more transfer of the lane is complete.
  virtual void finish(Lane& lane, Way way) = 0;

 protected:
  ~Meanwhile() = default;
};

// Who is lost. Threads: any. Outlives the lanes.
class Peers {
 public:
  Peers(Device& device, std::shared_ptr<gloo::transport::Context> context);

  // All that this peer has ever sent was taken, and there will be no more.
  void lose(int peer);
  // Nobody waits any more: the communicator is over, and its connections with
  // it. Before that the loss of one peer leaves the others' alone: who sees a
  // connection end asks why, and the host has to be able to say.
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

// One buffer of Gloo's, for one peer. Transfers of one direction are waited for
// in the order in which they began.
//
// Threads: one at a time, but `let_go` from any. Once a lane is destroyed, Gloo
// does not touch the memory of its transfers any more.
class Lane {
 public:
  // Without `meanwhile`, who waits does nothing else.
  Lane(Peers& peers, int peer, Meanwhile* meanwhile = nullptr);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  int peer() const { return peer_; }

  // They throw what Gloo throws, the waits also when the peer is lost.
  void send(const void* from, size_t bytes, uint64_t slot) {
    buffer_->send(peer_, slot, reinterpret_cast<size_t>(from), bytes);
  }
  void receive(void* to, size_t bytes, uint64_t slot) {
    buffer_->recv(peer_, slot, reinterpret_cast<size_t>(to), bytes);
  }
  // True: one more is complete. False: somebody has let go.
  bool wait(Way way);
  void finish(Way way) {
    if (meanwhile_ != nullptr) return meanwhile_->finish(*this, way);
    while (!wait(way)) {
    }
  }

  // Ends a wait, or else the next one. Of a lost peer whoever waits is just
  // looking what it left: that is not to be interrupted for ever.
  void let_go(Way way) {
    if (!peers_.is_lost(peer_)) interrupt(way);
  }

 private:
  friend class Peers;

  void interrupt(Way way);
  bool wait_on(Way way, std::chrono::milliseconds limit);
  bool is_complete(Way way);

  Peers& peers_;
  const int peer_;
  Meanwhile* const meanwhile_;
  // Of all memory: its offsets are addresses.
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
  // After a failure: what has begun must not go on.
  void discard() {
    for (std::unique_ptr<Lane>& lane : lanes_) lane.reset();
  }

 private:
  Peers* peers_ = nullptr;
  Meanwhile* meanwhile_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

// Lanes for messages that are in flight side by side. Threads: any.
class LanePool {
 public:
  void attach(Peers* peers, int size) {
    peers_ = peers;
    unused_.resize(static_cast<size_t>(size));
  }
  std::unique_ptr<Lane> take(int peer);
  // Back from an owner for whom nothing is left to complete in it.
  void give_back(std::unique_ptr<Lane> lane);

 private:
  Peers* peers_ = nullptr;
  std::mutex mutex_;
  std::vector<std::vector<std::unique_ptr<Lane>>> unused_;  // by peer
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_LANES_H_
