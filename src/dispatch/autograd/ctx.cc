// A node's context: the values that it saves for its gradient.
#include "dispatch/autograd/history.h"
#include "dispatch/autograd/state.h"
#include "dispatch/fail.h"
#include "distwrap/function.h"
#include "distwrap/throwing.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::autograd {
namespace {

bool contains(absl::Span<const Tensor> tensors, const Tensor& wanted) {
  for (const Tensor& one : tensors) {
    if (one.is_same(wanted)) return true;
  }
  return false;
}

// A new handle of the memory, without history.
Tensor alias(const Tensor& tensor) {
  const dispatch::ExcludeGuard below{dispatch::KeySet(dispatch::kAutograd)};
  return throwing::detach(tensor);
}

}  // namespace

void SavedTensor::become_output(uint32_t output) {
  tensor_ = alias(tensor_);
  output_ = output;
  is_output_ = true;
}

absl::StatusOr<Tensor> SavedTensor::unpack(Node* node, size_t index) const {
  if (!tensor_.defined()) return Tensor();
  if (tensor_.version() != version_) {
    return make_error(
        {.reason = Reason::kSavedChanged,
         .what = absl::StrCat("saved value ", index + 1, " (", tensor_.text(),
                              ") was written: saved at version ", version_,
                              ", is ", tensor_.version()),
         .op = node == nullptr ? "" : node->name(),
         .next_step = "clone it before the write"});
  }
  if (!is_output_ || node == nullptr || !gradients_on()) return tensor_;
  Tensor output = alias(tensor_);
  set_history(output, NodePtr::share(node), output_, false);
  return output;
}

Tensor Ctx::saved(size_t index) const {
  if (released_) {
    throw StatusError(make_error(
        {.reason = Reason::kBackwardTwice,
         .what = "the saved values were given up after the first run",
         .op = node_ == nullptr ? "" : node_->name(),
         .next_step = "run the first time with retain_graph"}));
  }
  return throwing::unwrap(saved_.at(index).unpack(node_, index));
}

Tensor Ctx::copy_of_input(size_t index, const Tensor& input) const {
  Tensor copy = throwing::clone(input);
  if (node_ != nullptr && node_->edges[index].node) {
    set_history(copy, node_->edges[index].node, node_->edges[index].output,
                false);
  }
  return copy;
}

void Ctx::put_value(absl::string_view name, Value value) {
  if (node_ != nullptr) values_.emplace_back(name, std::move(value));
}

bool Ctx::has(absl::string_view name) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const auto& one) { return one.first == name; });
}

const Value& Ctx::get_value(absl::string_view name) const {
  for (const auto& [key, value] : values_) {
    if (key == name) return value;
  }
  throw StatusError(
      make_error({.reason = Reason::kArgument,
                  .what = absl::StrCat("forward() put no '", name, "'"),
                  .op = node_ == nullptr ? "" : node_->name()}));
}

void Ctx::finish(absl::Span<Tensor> outputs, Inputs inputs, bool is_formula,
                 NodePtr node) {
  node_->outputs.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    if (!output.defined()) continue;
    if (!contains(dirty_, output)) {
      for (const Tensor* input : inputs) {
        if (input != nullptr && input->is_same(output)) {
          output = alias(output);
          break;
        }
      }
    }
    OutputShape& shape = node_->outputs[i];
    shape.sizes.assign(output.sizes().begin(), output.sizes().end());
    shape.dtype = output.dtype();
    shape.device = output.device();
    // An output's node must not hold the output.
    for (SavedTensor& saved : saved_) {
      if (output.is_same(saved.tensor())) {
        saved.become_output(static_cast<uint32_t>(i));
      }
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (!output.defined() || contains(plain_, output) ||
        !dispatch::is_float(output.dtype())) {
      continue;
    }
    const bool written = contains(dirty_, output);
    if (auto* view = output.state()->view.get();
        view != nullptr && !is_formula && !written) {
      view->custom = true;
    }
    // The last output takes over the caller's reference.
    set_history(
        output,
        i + 1 == outputs.size() ? std::move(node) : NodePtr::share(node_),
        static_cast<uint32_t>(i), written);
  }
  dirty_.clear();
  plain_.clear();
}

absl::StatusOr<Grads> Ctx::prepare(Grads grads) const {
  if (!materialize_) return grads;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) continue;
    const OutputShape& shape = node_->outputs[i];
    absl::StatusOr<Tensor> zeros =
        ops::zeros(shape.sizes, shape.dtype, shape.device);
    if (!zeros.ok()) return std::move(zeros).status();
    grads[i] = *std::move(zeros);
  }
  return grads;
}

void Ctx::release() {
  if (!saved_.empty()) released_ = true;
  saved_.clear();
}

}  // namespace distwrap::autograd
