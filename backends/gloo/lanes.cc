#include "lanes.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gloo_backend {
namespace {

// Long enough for Gloo to look whether a transfer is complete. When it is not,
// Gloo closes every connection, which by then is what has to happen.
constexpr std::chrono::milliseconds kLook(1);

// Unused lanes for each peer; each is a few hundred bytes.
constexpr size_t kKept = 256;

}  // namespace

Peers::Peers(std::shared_ptr<gloo::transport::Context> context)
    : context_(std::move(context)),
      lost_(static_cast<size_t>(context_->size)) {}

void Peers::lose(int peer) {
  lost_[static_cast<size_t>(peer)].store(true);
  std::lock_guard<std::mutex> lock(mutex_);
  for (Lane* lane : lanes_) {
    if (lane->peer() != peer) continue;
    lane->let_go(Way::kSend);
    lane->let_go(Way::kReceive);
  }
}

void Peers::lose_all() {
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

bool Lane::wait_on(Way way) {
  return way == Way::kSend
             ? buffer_->waitSend(nullptr, gloo::transport::kUnsetTimeout)
             : buffer_->waitRecv(nullptr, gloo::transport::kUnsetTimeout);
}

// The peer is lost before the wait begins, or whoever loses it ends the wait.
bool Lane::wait(Way way) {
  if (!peers_.is_lost(peer_)) {
    if (wait_on(way)) return true;
    if (!peers_.is_lost(peer_)) return false;
  }
  look(way);
  return true;
}

// What a lost peer has left behind: complete, or never to be. Who was let go
// more than once has to look as often.
void Lane::look(Way way) {
  try {
    while (!(way == Way::kSend ? buffer_->waitSend(nullptr, kLook)
                               : buffer_->waitRecv(nullptr, kLook))) {
    }
  } catch (const gloo::Exception&) {
    throw gloo::IoException("the connection broke within a message");
  }
}

void Lane::let_go(Way way) {
  if (way == Way::kSend)
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
  if (lanes.size() < kKept) lanes.push_back(std::move(lane));
}

}  // namespace gloo_backend
