#include "lanes.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace gloo_backend {
namespace {

// The time to find out whether a transfer is complete.
constexpr std::chrono::milliseconds kLook(1);
constexpr int kLooks = 3;

// The number of unused lanes for each peer; a lane has a few hundred bytes.
constexpr size_t kKept = 256;

}  // namespace

Peers::Peers(Device& device, std::shared_ptr<gloo::transport::Context> context)
    : device_(device),
      context_(std::move(context)),
      lost_(static_cast<size_t>(context_->size)) {}

void Peers::lose(int peer) {
  lost_[static_cast<size_t>(peer)].store(true);
  std::lock_guard<std::mutex> lock(mutex_);
  for (Lane* lane : lanes_) {
    if (lane->peer() != peer) continue;
    lane->interrupt(Direction::kSend);
    lane->interrupt(Direction::kReceive);
  }
}

void Peers::end() {
  ended_.store(true);
  for (size_t peer = 0; peer < lost_.size(); ++peer)
    lose(static_cast<int>(peer));
}

Lane::Lane(Peers& peers, int peer, Meanwhile* meanwhile)
    : peers_(peers),
      peer_(peer),
      meanwhile_(meanwhile),
      buffer_(peers.context_->createUnboundBuffer(nullptr, SIZE_MAX)) {
  std::lock_guard<std::mutex> lock(peers_.mutex_);
  peers_.lanes_.push_back(this);
}

Lane::~Lane() {
  std::lock_guard<std::mutex> lock(peers_.mutex_);
  auto& lanes = peers_.lanes_;
  lanes.erase(std::find(lanes.begin(), lanes.end(), this));
}

bool Lane::wait_on(Direction direction, std::chrono::milliseconds limit) {
  return direction == Direction::kSend ? buffer_->waitSend(nullptr, limit)
                                       : buffer_->waitRecv(nullptr, limit);
}

// Either the peer is lost before the wait begins, or the thread that reports
// the loss ends the wait.
bool Lane::wait(Direction direction) {
  if (!peers_.is_lost(peer_)) {
    if (wait_on(direction, gloo::transport::kUnsetTimeout)) return true;
    if (!peers_.is_lost(peer_)) return false;
  }
  // Data that the lost peer sent earlier are either complete by now or will
  // never be.
  try {
    if (is_complete(direction)) return true;
  } catch (const std::exception&) {
    // Gloo's text would describe only the time-out of this check, if there is
    // one.
  }
  throw gloo::IoException("the connection broke within a message");
}

// Gloo cannot tell whether a transfer is complete. A wait that times out in
// Gloo closes every connection; a wait that another thread interrupts closes
// none, but may return before it has checked.
bool Lane::is_complete(Direction direction) {
  if (peers_.ended_.load()) {
    while (!wait_on(direction, kLook)) {
    }
    return true;
  }
  std::atomic<bool> rang{false};
  Device::Alarm alarm(peers_.device_, [&] {
    rang.store(true);
    interrupt(direction);
  });
  alarm.every(kLook);
  for (int looks = 0; looks < kLooks;) {
    if (wait_on(direction, gloo::transport::kUnsetTimeout)) return true;
    if (rang.exchange(false)) ++looks;
  }
  return false;
}

void Lane::interrupt(Direction direction) {
  if (direction == Direction::kSend)
    buffer_->abortWaitSend();
  else
    buffer_->abortWaitRecv();
}

std::unique_ptr<Lane> LanePool::take(int peer) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& lanes = unused_[static_cast<size_t>(peer)];
    if (!lanes.empty()) {
      std::unique_ptr<Lane> lane = std::move(lanes.back());
      lanes.pop_back();
      return lane;
    }
  }
  return std::make_unique<Lane>(*peers_, peer);
}

void LanePool::give_back(std::unique_ptr<Lane> lane) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto& lanes = unused_[static_cast<size_t>(lane->peer())];
  try {
    if (lanes.size() < kKept) lanes.push_back(std::move(lane));
  } catch (const std::bad_alloc&) {  // the lane is not kept
  }
}

}  // namespace gloo_backend
