// The two layers that serve operators of any library: kViewTracking counts
// writes and ties views to their base, by the schema; the fallback of kAutograd
// gives results of operators without a formula a node that says so.
#include "dispatch/autograd/history.h"
#include "dispatch/autograd/state.h"
#include "dispatch/fail.h"
#include "distwrap/function.h"
#include "distwrap/registration.h"

#include <utility>
#include <vector>

namespace distwrap::autograd {
namespace {

using dispatch::KeySet;
using dispatch::OpHandle;

// `view` shares the memory of `of`.
void tie(const Tensor& view, const Tensor& of) {
  if (view.is_same(of)) return;
  const auto* const before = of.state()->view.get();
  auto state = std::make_unique<distwrap::internal::ViewState>();
  state->base = before != nullptr ? before->base : of;
  state->version = view.version();
  state->under_no_grad =
      !gradients_on() || (before != nullptr && before->under_no_grad);
  state->custom = before != nullptr && before->custom;
  view.state()->view = std::move(state);
  distwrap::internal::refresh_keys(view.state());
}

absl::Status track(const OpHandle& op, KeySet set, Stack& stack) {
  auto found = op.schema();
  if (!found.ok()) return std::move(found).status();
  const Schema& schema = **found;
  const size_t first = stack.size() - schema.params.size();
  absl::InlinedVector<Tensor, 2> written;
  absl::InlinedVector<Tensor, 1> bases(schema.returns.size());
  for (size_t i = 0; i < schema.params.size(); ++i) {
    if ((schema.written >> i & 1) == 0) continue;
    const Value& value = stack[first + i];
    if (value.is_tensor()) written.push_back(value.tensor());
    if (value.tag() == Value::Tag::kTensors) {
      for (const Tensor& one : value.to_tensors()) written.push_back(one);
    }
  }
  for (size_t i = 0; i < schema.returns.size(); ++i) {
    const int of = schema.result_of[i];
    if (of < 0 || schema.returns[i].alias->write) continue;
    const Value& value = stack[first + static_cast<size_t>(of)];
    if (value.is_tensor()) bases[i] = value.tensor();
  }
  absl::Status status =
      op.redispatch_boxed(set.below(dispatch::kViewTracking), stack);
  // A kernel that failed may have written.
  for (const Tensor& one : written) {
    if (!one.defined()) continue;
    one.state()->storage->version.fetch_add(1, std::memory_order_relaxed);
  }
  if (!status.ok()) return status;
  for (size_t i = 0; i < bases.size(); ++i) {
    if (!bases[i].defined()) continue;
    const Value& result = stack[first + i];
    if (result.is_tensor()) tie(result.tensor(), bases[i]);
    if (result.tag() == Value::Tag::kTensors) {
      for (const Tensor& one : result.to_tensors()) tie(one, bases[i]);
    }
  }
  return status;
}

// The node of an operator without a formula.
class NoGradient final : public Node {
 public:
  explicit NoGradient(std::string op) : op_(std::move(op)) {}
  absl::StatusOr<Grads> backward(Grads /*grads*/) override {
    return make_error(
        {.reason = Reason::kNoGradient,
         .what = "a gradient arrived at an operator without a formula",
         .op = op_,
         .next_step = "register a kernel for kAutograd, or detach the result"});
  }
  std::string name() const override { return op_; }

 private:
  const std::string op_;
};

absl::Status without_formula(const OpHandle& op, KeySet set, Stack& stack) {
  auto found = op.schema();
  if (!found.ok()) return std::move(found).status();
  const Schema& schema = **found;
  const size_t first = stack.size() - schema.params.size();
  std::vector<Tensor> inputs;
  std::vector<Tensor> written;
  for (size_t i = 0; i < schema.params.size(); ++i) {
    const Value& value = stack[first + i];
    std::vector<Tensor> found_here;
    if (value.is_tensor()) found_here.push_back(value.tensor());
    if (value.tag() == Value::Tag::kTensors) {
      found_here.assign(value.to_tensors().begin(), value.to_tensors().end());
    }
    inputs.insert(inputs.end(), found_here.begin(), found_here.end());
    if ((schema.written >> i & 1) != 0) {
      written.insert(written.end(), found_here.begin(), found_here.end());
    }
  }
  absl::InlinedVector<Edge, 3> edges;
  if (gradients_on()) {
    for (const Tensor& one : inputs) {
      Edge edge = internal::edge_of(&one);
      if (edge.node) edges.push_back(std::move(edge));
    }
    for (const Tensor& one : written) {
      absl::Status status =
          internal::check_write(one, op.name(), !edges.empty());
      if (!status.ok()) return status;
    }
  }
  {
    const dispatch::ExcludeGuard below{KeySet(dispatch::kAutograd)};
    absl::Status status =
        op.redispatch_boxed(set.below(dispatch::kAutograd), stack);
    if (!status.ok()) return status;
  }
  if (edges.empty()) return absl::OkStatus();
  NodePtr node(new NoGradient(op.name()));
  node->edges = std::move(edges);
  const auto give = [&](const Tensor& output) {
    const bool is_float = dispatch::is_float(output.dtype());
    const auto index = static_cast<uint32_t>(node->outputs.size());
    node->outputs.push_back({Dims(output.sizes().begin(), output.sizes().end()),
                             output.dtype(), output.device()});
    if (!is_float) return;
    bool was_there = false;
    for (const Tensor& one : written) was_there |= one.is_same(output);
    set_history(output, node, index, was_there);
  };
  for (size_t i = first; i < stack.size(); ++i) {
    if (stack[i].is_tensor() && stack[i].tensor().defined()) {
      give(stack[i].tensor());
    }
    if (stack[i].tag() == Value::Tag::kTensors) {
      for (const Tensor& one : stack[i].to_tensors()) give(one);
    }
  }
  return absl::OkStatus();
}

}  // namespace

DW_OPERATORS(lib) {
  lib.fallback(dispatch::kViewTracking, dispatch::boxed(&track));
  lib.fallback(dispatch::kAutograd, dispatch::boxed(&without_formula));
}

}  // namespace distwrap::autograd
