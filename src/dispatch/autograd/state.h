// A tensor's state for gradients, and the tie of a view to its base.
#ifndef DISTWRAP_SRC_DISPATCH_AUTOGRAD_STATE_H_
#define DISTWRAP_SRC_DISPATCH_AUTOGRAD_STATE_H_

#include "distwrap/autograd.h"
#include "distwrap/tensor.h"

#include <functional>
#include <vector>

namespace distwrap::internal {

// The part of a tensor's state that only leaves have.
struct LeafState {
  Tensor grad;
  // The node that adds to `grad`, made at the first use. A reference to it is
  // one to the tensor.
  std::atomic<autograd::Node*> accumulator{nullptr};
  std::vector<std::function<absl::Status(const Tensor&)>> hooks;
  ~LeafState();
};

// A view's base is never a view itself: a view of a view has the first base.
struct ViewState {
  Tensor base;
  // The writes to the storage when the view's node was made: after more, the
  // node is made anew.
  uint64_t version = 0;
  // Why the view cannot be written while gradients are on: it was made while
  // they were off, or by a custom function.
  bool under_no_grad = false, custom = false;
};

LeafState& leaf_of(TensorState* state);
// Brings the layer kAutograd of the tensor's key set up to date.
void refresh_keys(TensorState* state);

}  // namespace distwrap::internal

#endif  // DISTWRAP_SRC_DISPATCH_AUTOGRAD_STATE_H_
