// Nodes: counting, numbering, and freeing long chains without recursion.
#include "dispatch/free_list.h"
#include "distwrap/autograd.h"

#include <new>
#include <vector>

namespace distwrap::autograd {
namespace {

std::atomic<uint64_t> numbers{0};

// Nodes whose end came while another node of this thread ended.
__thread std::vector<Node*>* waiting
    __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace

void Node::take_number() {
  number_ = numbers.fetch_add(1, std::memory_order_relaxed);
}
Node::~Node() = default;

void* Node::operator new(size_t bytes) {
  void* const block = dispatch::take_block(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void Node::operator delete(void* block, size_t bytes) {
  dispatch::give_block(block, bytes);
}

void NodePtr::free(Node* node) {
  // A node's end drops other nodes: they wait in this list for their turn.
  if (waiting != nullptr) {
    waiting->push_back(node);
    return;
  }
  std::vector<Node*> list;
  waiting = &list;
  for (Node* next = node; next != nullptr;) {
    // The library may go as soon as its last node is counted off.
    std::atomic<int64_t>* const objects = next->objects_;
    delete next;
    if (objects != nullptr) objects->fetch_sub(1, std::memory_order_release);
    next = nullptr;
    if (!list.empty()) {
      next = list.back();
      list.pop_back();
    }
  }
  waiting = nullptr;
}

}  // namespace distwrap::autograd
