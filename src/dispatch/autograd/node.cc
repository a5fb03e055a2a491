// Nodes: counting, numbering, and freeing long chains without recursion.
#include "distwrap/autograd.h"

#include <vector>

namespace distwrap::autograd {
namespace {

std::atomic<uint64_t> numbers{0};

}  // namespace

Node::Node() : number_(numbers.fetch_add(1, std::memory_order_relaxed)) {}
Node::~Node() = default;

NodePtr::NodePtr(const NodePtr& other) : node_(other.node_) {
  if (node_ != nullptr) {
    node_->references_.fetch_add(1, std::memory_order_relaxed);
  }
}

NodePtr NodePtr::share_if_alive(Node* node) {
  if (node == nullptr) return {};
  int64_t held = node->references_.load(std::memory_order_relaxed);
  while (held > 0 && !node->references_.compare_exchange_weak(
                         held, held + 1, std::memory_order_acquire)) {
  }
  return held > 0 ? NodePtr(node) : NodePtr();
}

void NodePtr::drop(Node* node) {
  if (node->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // A node's end drops other nodes: they wait in this list for their turn.
  thread_local std::vector<Node*>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(node);
    return;
  }
  std::vector<Node*> list = {node};
  waiting = &list;
  while (!list.empty()) {
    Node* const next = list.back();
    list.pop_back();
    // The library may go as soon as its last node is counted off.
    std::atomic<int64_t>* const objects = next->objects_;
    delete next;
    if (objects != nullptr) objects->fetch_sub(1, std::memory_order_release);
  }
  waiting = nullptr;
}

}  // namespace distwrap::autograd
