// The history of tensors: which node computed a tensor, what a write in place
// changes, and how views follow their base.
#include "dispatch/autograd/history.h"

#include "dispatch/autograd/state.h"
#include "dispatch/fail.h"
#include "dispatch/geometry.h"
#include "distwrap/function.h"
#include "distwrap/throwing.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <utility>

namespace distwrap {
namespace autograd {
namespace {

using distwrap::internal::leaf_of;
using distwrap::internal::LeafState;
using distwrap::internal::TensorState;
using distwrap::internal::ViewState;

// A number of writes that no storage has.
constexpr uint64_t kStale = ~uint64_t{0};

OutputShape shape_of(const Tensor& tensor) {
  return {Dims(tensor.sizes().begin(), tensor.sizes().end()), tensor.dtype(),
          tensor.device()};
}

// Adds gradients to grad() of a leaf, whose state owns this node.
class Accumulate final : public Node {
 public:
  explicit Accumulate(const Tensor& leaf)
      : Node(leaf.state()), leaf_(leaf.state()) {
    outputs.push_back(shape_of(leaf));
  }
  absl::StatusOr<Grads> backward(Grads grads) override {
    if (!grads[0].defined()) return Grads();
    LeafState& state = leaf_of(leaf_);
    Tensor& sum = state.grad;
    if (gradients_on()) {
      sum = sum.defined() ? throwing::add(sum, grads[0]) : grads[0];
    } else if (sum.defined()) {
      throwing::add_(sum, grads[0]);
    } else if (grads[0].use_count() == 1 && grads[0].is_contiguous() &&
               grads[0].storage().state()->references.load() == 2) {
      // Nobody else sees this memory.
      sum = std::move(grads[0]);
    } else {
      sum = throwing::clone(grads[0]);
    }
    if (state.hooks.empty()) return Grads();
    leaf_->references.fetch_add(1, std::memory_order_relaxed);
    const Tensor leaf = Tensor::adopt(leaf_);
    for (const auto& hook : state.hooks) {
      absl::Status status = hook(leaf);
      if (!status.ok()) return status;
    }
    return Grads();
  }
  std::string name() const override { return "accumulate"; }

 private:
  TensorState* const leaf_;
};

// A view as part of its base, both row-major.
struct PlaceInBase {
  Dims base_sizes, sizes, strides;
  int64_t offset = 0;
};

PlaceInBase part_of(const Tensor& view, const Tensor& base) {
  return {Dims(base.sizes().begin(), base.sizes().end()),
          Dims(view.sizes().begin(), view.sizes().end()),
          Dims(view.strides().begin(), view.strides().end()),
          view.storage_offset() - base.storage_offset()};
}

Tensor take_part(const Tensor& whole, const PlaceInBase& part) {
  return throwing::as_strided(throwing::contiguous(whole), part.sizes,
                              part.strides, part.offset);
}
// Zeros of the base's shape with `value` in place of the part.
Tensor embed(const Tensor& value, const PlaceInBase& part) {
  return throwing::as_strided_backward(value, part.base_sizes, part.sizes,
                                       part.strides, part.offset);
}

// The node of a view whose base was written after the view had been made.
class ViewOfBase final : public Node {
 public:
  ViewOfBase(const Tensor& view, const Tensor& base)
      : part_(part_of(view, base)), possible_(base.is_contiguous()) {
    edges.push_back(internal::edge_of(&base));
    outputs.push_back(shape_of(view));
  }
  absl::StatusOr<Grads> backward(Grads grads) override {
    if (!possible_) {
      return make_error({.reason = Reason::kViewWrite,
                         .what = "the base of a view was written after the "
                                 "view was made, and is not row-major",
                         .op = name(),
                         .next_step = "make the view after the write"});
    }
    if (!grads[0].defined()) return Grads{Tensor()};
    return Grads{embed(grads[0], part_)};
  }
  std::string name() const override { return "view of a written tensor"; }

 private:
  const PlaceInBase part_;
  const bool possible_;
};

// The node of a base of which a view was written: what was before, with the new
// value in the view's place.
class WrittenPart final : public Node {
 public:
  WrittenPart(const Tensor& view, const Tensor& base, NodePtr writer)
      : part_(part_of(view, base)), writer_(std::move(writer)) {
    edges.push_back(internal::edge_of(&base));
    for (size_t i = 1; i < writer_->edges.size(); ++i) {
      edges.push_back(writer_->edges[i]);
    }
    outputs.push_back(shape_of(base));
  }
  absl::StatusOr<Grads> backward(Grads grads) override {
    if (writer_ == NodePtr()) {
      return make_error({.reason = Reason::kBackwardTwice,
                         .what = "the saved values were given up",
                         .op = name()});
    }
    const Tensor& whole = grads[0];
    if (!whole.defined()) return Grads(edges.size());
    absl::StatusOr<Grads> inner =
        writer_->backward(Grads{throwing::contiguous(take_part(whole, part_))});
    if (!inner.ok()) return inner;
    inner->resize(edges.size());
    const Tensor ones =
        throwing::full(part_.sizes, 1, whole.dtype(), whole.device());
    const Tensor outside =
        throwing::where(throwing::eq(embed(ones, part_), Scalar(0)), whole,
                        throwing::full_like(whole, 0));
    Tensor& first = (*inner)[0];
    first =
        first.defined() ? throwing::add(outside, embed(first, part_)) : outside;
    return inner;
  }
  std::string name() const override {
    return writer_ ? writer_->name() + " on a view" : "write to a view";
  }
  void release() override {
    if (writer_) writer_->release();
  }

 private:
  const PlaceInBase part_;
  NodePtr writer_;
};

void set_node(const Tensor& tensor, NodePtr node, uint32_t output) {
  TensorState* const state = tensor.state();
  // The node before ends after the new one is in place.
  const NodePtr before(std::exchange(state->node, node.release()));
  state->output = output;
  distwrap::internal::refresh_keys(state);
  if (ViewState* view = state->view.get()) view->version = tensor.version();
}

// The node of a view is made anew when the memory was written since.
void follow_base(const Tensor& tensor) {
  ViewState* const view = tensor.state()->view.get();
  if (view == nullptr || view->version == tensor.version() ||
      view->under_no_grad || !internal::needs_gradient(&view->base)) {
    return;
  }
  set_node(tensor, NodePtr(new ViewOfBase(tensor, view->base)), 0);
}

absl::Status view_write(absl::string_view op, std::string what) {
  return make_error({.reason = Reason::kViewWrite,
                     .what = std::move(what),
                     .op = std::string(op),
                     .next_step = "clone the view and write to the clone"});
}

}  // namespace

namespace internal {

bool passes_gradient(const Tensor& tensor) {
  const TensorState* const state = tensor.state();
  if (state->requires_grad || state->node != nullptr) return true;
  const ViewState* const view = state->view.get();
  return view != nullptr && !view->under_no_grad &&
         dispatch::is_float(tensor.dtype()) &&
         view->version != tensor.version() && needs_gradient(&view->base);
}

Edge edge_of(const Tensor* tensor) {
  if (!needs_gradient(tensor)) return {};
  TensorState* const state = tensor->state();
  if (state->view != nullptr) follow_base(*tensor);
  if (state->node != nullptr) {
    return {NodePtr::share(state->node), state->output};
  }
  // Two threads may use the leaf for the first time at once.
  std::atomic<Node*>& place = leaf_of(state).accumulator;
  Node* node = place.load(std::memory_order_acquire);
  if (node == nullptr) {
    auto* const made = new Accumulate(*tensor);
    if (place.compare_exchange_strong(node, made, std::memory_order_acq_rel)) {
      node = made;
    } else {
      delete made;
    }
  }
  return {NodePtr::share(node), 0};
}

absl::Status check_write(const Tensor& tensor, absl::string_view op,
                         bool recorded) {
  const ViewState* const view = tensor.state()->view.get();
  const auto is_leaf_with_grad = [](const Tensor& of) {
    return of.state()->requires_grad && of.state()->node == nullptr;
  };
  if (is_leaf_with_grad(tensor) || (view != nullptr && !view->under_no_grad &&
                                    is_leaf_with_grad(view->base))) {
    return make_error(
        {.reason = Reason::kLeafWrite,
         .what = absl::StrCat(view == nullptr ? "the tensor is a leaf that "
                                              : "the tensor is a view of a "
                                                "leaf that ",
                              "requires a gradient (", tensor.text(), ")"),
         .op = std::string(op),
         .next_step = "write under NoGradGuard, or to a clone"});
  }
  if (view == nullptr) return absl::OkStatus();
  if (view->under_no_grad && needs_gradient(&view->base)) {
    return view_write(op,
                      "the view was made while gradients were off, of a "
                      "tensor that requires one");
  }
  if (!recorded) return absl::OkStatus();
  if (view->custom) {
    return view_write(op, "the view was made by a custom function");
  }
  if (!view->base.is_contiguous()) {
    return view_write(op, "the view's base is not row-major");
  }
  return absl::OkStatus();
}

std::string type_text(absl::string_view pretty) {
  const size_t first = pretty.find("T = ");
  if (first == absl::string_view::npos) return std::string(pretty);
  size_t end = first + 4;
  while (end < pretty.size() && pretty[end] != ';' && pretty[end] != ']') ++end;
  return std::string(pretty.substr(first + 4, end - first - 4));
}

}  // namespace internal

void set_history(const Tensor& tensor, NodePtr node, uint32_t output,
                 bool written) {
  ViewState* const view = tensor.state()->view.get();
  if (written && view != nullptr) {
    NodePtr part(new WrittenPart(tensor, view->base, std::move(node)));
    set_node(view->base, std::move(part), 0);
    // The view's own history comes from its base at the next use.
    set_node(tensor, {}, 0);
    view->version = kStale;
    return;
  }
  set_node(tensor, std::move(node), output);
}

NodePtr node_of(const Tensor& tensor) {
  return tensor.defined() && !tensor.is_leaf() ? internal::edge_of(&tensor).node
                                               : NodePtr();
}

absl::Status add_hook(const Tensor& tensor, Node::TensorHook hook) {
  if (!internal::needs_gradient(&tensor)) {
    return dispatch::bad_argument("add_hook", "the tensor has no gradient",
                                  "a tensor that requires one", tensor.text());
  }
  const Edge edge = internal::edge_of(&tensor);
  edge.node->output_hooks.emplace_back(edge.output, std::move(hook));
  return absl::OkStatus();
}

absl::Status add_leaf_hook(
    const Tensor& leaf, std::function<absl::Status(const Tensor& leaf)> hook) {
  if (!leaf.defined() || !leaf.is_leaf() || !leaf.requires_grad()) {
    return dispatch::bad_argument("add_leaf_hook", "not a leaf with gradient",
                                  "a leaf that requires a gradient",
                                  leaf.text());
  }
  leaf_of(leaf.state()).hooks.push_back(std::move(hook));
  return absl::OkStatus();
}

}  // namespace autograd

namespace internal {

LeafState::~LeafState() { delete accumulator.load(); }

LeafState& leaf_of(TensorState* state) {
  if (state->leaf == nullptr) state->leaf = std::make_unique<LeafState>();
  return *state->leaf;
}

void refresh_keys(TensorState* state) {
  // A view always passes the layer: its base may get a history at any time.
  const bool has =
      state->view != nullptr || state->requires_grad || state->node != nullptr;
  const dispatch::KeySet key(dispatch::kAutograd);
  state->keys = has ? state->keys | key : state->keys.minus(key);
}

}  // namespace internal

bool Tensor::requires_grad() const {
  return autograd::internal::needs_gradient(this);
}

bool Tensor::is_leaf() const {
  if (state_->node != nullptr) return false;
  return state_->view == nullptr || !requires_grad();
}

absl::Status Tensor::set_requires_grad(bool wanted) const {
  if (wanted && !dispatch::is_float(dtype())) {
    return dispatch::bad_argument("set_requires_grad",
                                  "the element type has no gradients",
                                  "f16, bf16, f32 or f64", text());
  }
  if (!is_leaf()) {
    return dispatch::bad_argument(
        "set_requires_grad", "the tensor is not a leaf",
        "a tensor that was not computed from ones that require a gradient",
        text());
  }
  state_->requires_grad = wanted;
  // Threads that use the leaf at once find its state there.
  if (wanted) internal::leaf_of(state_);
  internal::refresh_keys(state_);
  return absl::OkStatus();
}

Tensor Tensor::grad() const {
  return state_->leaf == nullptr ? Tensor() : state_->leaf->grad;
}

void Tensor::set_grad(Tensor grad) const {
  internal::leaf_of(state_).grad = std::move(grad);
}

}  // namespace distwrap
