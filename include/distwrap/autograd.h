// Gradients: a layer above the kernels that notes how tensors were computed,
// and the engine that runs the notes backwards.
//
// A tensor that requires a gradient, or was computed from one that does, has
// the layer kAutograd in its key set. Its calls pass a formula, which computes
// the result below and makes a node. backward() visits nodes from the outputs
// to the leaves: the newest first, on the calling thread, so equal programs
// give equal bits.
//
// Threads: different graphs in different threads; one backward() at a time for
// nodes that graphs share. Ownership: an output holds its node, a node holds
// what the gradient needs until a run has used it.
//
//   check(w.set_requires_grad());
//   StatusOr<Tensor> loss = ...;
//   Status status = autograd::backward({*loss});
//   Tensor gradient = w.grad();
//
// Source: reverse-mode differentiation on a tape, as PyTorch's engine orders
// it (Paszke et al. 2019); views and writes in place after its design.
#ifndef DISTWRAP_AUTOGRAD_H_
#define DISTWRAP_AUTOGRAD_H_

#include "distwrap/export.h"
#include "distwrap/operator.h"
#include "distwrap/tensor.h"

#include <absl/container/inlined_vector.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::autograd {

// One gradient for each input; an undefined one is zero.
using Grads = absl::InlinedVector<Tensor, 3>;

class Node;

// A counted pointer to a node. Long chains are freed without recursion.
class DISTWRAP_EXPORT NodePtr {
 public:
  NodePtr() = default;
  // Takes over the first reference of a new node.
  explicit NodePtr(Node* node) : node_(node) {}
  NodePtr(const NodePtr& other) : NodePtr(share(other.node_)) {}
  NodePtr(NodePtr&& other) noexcept
      : node_(std::exchange(other.node_, nullptr)) {}
  NodePtr& operator=(NodePtr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePtr() {
    if (node_ != nullptr) drop(node_);
  }
  Node* get() const { return node_; }
  // One more reference to a node that somebody holds; nullptr gives none.
  static NodePtr share(Node* node);
  Node* release() { return std::exchange(node_, nullptr); }
  Node* operator->() const { return node_; }
  Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const NodePtr&, const NodePtr&) = default;

 private:
  static void drop(Node* node);
  static void free(Node* node);
  Node* node_ = nullptr;
};

// Where the gradient of an input goes: an output of an earlier node. Without a
// node the input needs none.
struct Edge {
  NodePtr node;
  uint32_t output = 0;
};

// The shape of an output, known without holding the output.
struct OutputShape {
  Dims sizes;
  DType dtype = DType::kF32;
  Device device;
};

class DISTWRAP_EXPORT Node {
 public:
  Node() { take_number(); }
  virtual ~Node();
  // From the free blocks of the thread, in the core library.
  static void* operator new(size_t bytes);
  static void operator delete(void* block, size_t bytes);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // The gradients of the inputs from those of the outputs, of which some may be
  // undefined.
  virtual absl::StatusOr<Grads> backward(Grads grads) = 0;
  // For errors: "dw::mul", or the name of a custom function's type.
  virtual std::string name() const = 0;
  // Gives up what was saved for backward().
  virtual void release() {}

  uint64_t number() const { return number_; }
  absl::InlinedVector<Edge, 3> edges;
  absl::InlinedVector<OutputShape, 1> outputs;
  using Hook = std::function<absl::Status(Grads& inputs, const Grads& outputs)>;
  // Called after backward(), with the gradients of inputs and of outputs.
  std::vector<Hook> hooks;
  // For each output, functions that see, and may replace, its gradient.
  using TensorHook = std::function<absl::StatusOr<Tensor>(const Tensor& grad)>;
  std::vector<std::pair<uint32_t, TensorHook>> output_hooks;

 protected:
  // A node of a leaf runs as soon as it can. The leaf owns it: references to it
  // are references to the leaf.
  explicit Node(distwrap::internal::TensorState* leaf)
      : leaf_(leaf), number_(~uint64_t{0}) {}
  // A node that takes its number when its edges are known.
  enum class Unnumbered : uint8_t { kYes };
  explicit Node(Unnumbered /*later*/) : number_(0) {}
  // Higher than the numbers of all nodes there are.
  void take_number();
  // The code of this node belongs to a library, which counts such nodes;
  // nullptr for a library that stays.
  void count_in(std::atomic<int64_t>* objects) {
    objects_ = objects;
    if (objects != nullptr) objects->fetch_add(1, std::memory_order_relaxed);
  }

 private:
  friend class NodePtr;
  std::atomic<int64_t>* objects_ = nullptr;
  distwrap::internal::TensorState* const leaf_ = nullptr;
  std::atomic<int64_t> references_{1};
  uint64_t number_;
};

inline NodePtr NodePtr::share(Node* node) {
  if (node != nullptr) {
    std::atomic<int64_t>& references =
        node->leaf_ != nullptr ? node->leaf_->references : node->references_;
    references.fetch_add(1, std::memory_order_relaxed);
  }
  return NodePtr(node);
}

inline void NodePtr::drop(Node* node) {
  if (node->leaf_ != nullptr) {
    distwrap::internal::drop_tensor(node->leaf_);
  } else if (node->references_.load(std::memory_order_acquire) == 1 ||
             node->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    // The holder of the only reference needs no atomic subtraction.
    free(node);
  }
}

// ---- running ----

struct BackwardOptions {
  // Keep what nodes have saved, for another run.
  bool retain_graph = false;
  // Note how the gradients are computed, to differentiate again. Implies
  // retain_graph.
  bool create_graph = false;
  // In grad(): an input that no output depends on has an undefined gradient;
  // otherwise that is kArgument.
  bool allow_unused = false;
};

// Adds the gradients of the outputs to grad() of all leaves. An output of one
// element may go without its gradient, which is 1 then.
// Errors: kArgument, kGradShape, kBackwardTwice, kSavedChanged, kNoGradient,
// those of operators; each names the node.
DISTWRAP_EXPORT absl::Status backward(TensorList outputs, TensorList grads = {},
                                      const BackwardOptions& options = {});
// The gradients of the outputs with respect to the inputs; grad() of leaves
// stays as it is.
DISTWRAP_EXPORT absl::StatusOr<std::vector<Tensor>> grad(
    TensorList outputs, TensorList inputs, TensorList grads = {},
    const BackwardOptions& options = {});

// The node that computed a tensor; empty for leaves.
DISTWRAP_EXPORT NodePtr node_of(const Tensor& tensor);
// Calls `hook` with the tensor's gradient, which it may replace. kArgument for
// a tensor without gradient.
DISTWRAP_EXPORT absl::Status add_hook(const Tensor& tensor,
                                      Node::TensorHook hook);
// Calls `hook` after a run has added to grad() of a leaf.
DISTWRAP_EXPORT absl::Status add_leaf_hook(
    const Tensor& leaf, std::function<absl::Status(const Tensor& leaf)> hook);

// ---- modes ----

inline bool gradients_on() { return !dispatch::thread_keys.gradients_off; }

// Calls of this thread note nothing. Writes in place still count.
class NoGradGuard {
 public:
  explicit NoGradGuard(bool off = true)
      : excluded_(dispatch::thread_keys.exclude & kBit),
        off_(dispatch::thread_keys.gradients_off) {
    set(off ? kBit : 0, off);
  }
  ~NoGradGuard() { set(excluded_, off_); }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  static constexpr uint64_t kBit = dispatch::KeySet(dispatch::kAutograd).bits();
  static void set(uint64_t excluded, bool off) {
    uint64_t& exclude = dispatch::thread_keys.exclude;
    exclude = (exclude & ~kBit) | excluded;
    dispatch::thread_keys.gradients_off = off;
  }
  const uint64_t excluded_;
  const bool off_;
};
// Within a NoGradGuard, calls note again.
class EnableGradGuard : public NoGradGuard {
 public:
  EnableGradGuard() : NoGradGuard(false) {}
};

// ---- checks ----

// Compares the gradients of `function` with central differences, for inputs of
// type f64. Errors: kGradShape with the input and the element that differ most.
struct CheckOptions {
  double eps = 1e-6, atol = 1e-5, rtol = 1e-3;
};
using Checked =
    std::function<absl::StatusOr<std::vector<Tensor>>(TensorList inputs)>;
DISTWRAP_EXPORT absl::Status grad_check(const Checked& function,
                                        TensorList inputs,
                                        const CheckOptions& options = {});
// Compares the gradients' gradients with central differences likewise.
DISTWRAP_EXPORT absl::Status grad_grad_check(const Checked& function,
                                             TensorList inputs,
                                             const CheckOptions& options = {});

}  // namespace distwrap::autograd

#endif  // DISTWRAP_AUTOGRAD_H_
