#include "mesh.h"

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>

#include <algorithm>

namespace gloo_backend {
namespace {

// A wait that times out in Gloo closes the pair. Gloo's time-outs are for
// single steps, whereas the host keeps the deadlines and aborts, so waits in
// Gloo never time out.
constexpr std::chrono::hours kNever(1000);

}  // namespace

Mesh::Mesh(Device& device, int rank, int size,
           std::chrono::milliseconds connecting)
    : rank_(rank),
      size_(size),
      context_(device.gloo()->createContext(rank, size)),
      peers_(device, context_),
      listeners_(static_cast<size_t>(size)) {
  // The `connect` of a pair waits for five times the time-out that the pair is
  // created with.
  context_->setTimeout(std::max(connecting / 5, std::chrono::milliseconds(1)));
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      listeners_[static_cast<size_t>(peer)] =
          Address(context_->createPair(peer)->address());
  context_->setTimeout(kNever);
}

const Address& Mesh::listener(int peer) const {
  return listeners_[static_cast<size_t>(peer)];
}

bool Mesh::calls(int peer, const std::vector<Address>& peers) const {
  return listener(peer).calls(peers[static_cast<size_t>(peer)]);
}

void Mesh::call(const std::vector<Address>& peers) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && calls(peer, peers))
      context_->getPair(peer)->connect(
          peers[static_cast<size_t>(peer)].gloo_bytes());
}

void Mesh::answer(const std::vector<Address>& peers) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && !calls(peer, peers))
      context_->getPair(peer)->connect(
          peers[static_cast<size_t>(peer)].gloo_bytes());
}

std::vector<Sockets::Ends> Mesh::connections(
    const std::vector<Address>& peers) const {
  std::vector<Sockets::Ends> all;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (calls(peer, peers))
      all.push_back({peer, Address(context_->getPair(peer)->address()),
                     peers[static_cast<size_t>(peer)]});
    else
      all.push_back({peer, listener(peer), Address()});
  }
  return all;
}

}  // namespace gloo_backend
