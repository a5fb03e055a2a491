// The engine: visits the nodes from the outputs to the leaves.
//
// A node runs when all nodes that depend on it have run, and of those that can
// run the newest runs first. Lists and a heap take the place of recursion, so
// the length of a chain is limited by memory alone.
#include "dispatch/autograd/state.h"
#include "dispatch/fail.h"
#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/throwing.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <queue>
#include <utility>

namespace distwrap::autograd {
namespace {

using dispatch::bad_argument;
using dispatch::dims_text;

struct NodeState {
  int64_t dependents = 0;  // edges from nodes that have not run yet
  bool wanted = true;      // leads to an input of grad()
  Grads grads;             // one for each output
};

struct Captured {
  uint32_t output;
  size_t input;  // the number of the input in grad()
};

class Run {
 public:
  Run(TensorList outputs, TensorList grads, const BackwardOptions& options)
      : outputs_(outputs), given_(grads), options_(options) {}

  absl::Status backward() {
    absl::Status status = start();
    if (!status.ok()) return status;
    return visit_all();
  }

  absl::StatusOr<std::vector<Tensor>> grad(TensorList inputs) {
    absl::Status status = start();
    if (!status.ok()) return status;
    results_.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Edge edge =
          inputs[i].defined() ? internal::edge_of(&inputs[i]) : Edge();
      if (!edge.node) {
        return bad_argument(
            "autograd::grad",
            absl::StrCat("input ", i + 1, " requires no gradient"),
            "tensors that require one", inputs[i].text());
      }
      captured_[edge.node.get()].push_back({edge.output, i});
      kept_.push_back(edge.node);
    }
    mark_wanted();
    status = visit_all();
    if (!status.ok()) return status;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!results_[i].defined() && !options_.allow_unused) {
        return bad_argument("autograd::grad",
                            absl::StrCat("no output depends on input ", i + 1),
                            "", inputs[i].text());
      }
    }
    return std::move(results_);
  }

 private:
  struct Later {
    bool operator()(const NodePtr& a, const NodePtr& b) const {
      return a->number() < b->number();
    }
  };

  // The gradients of the outputs, and how many nodes wait for each node.
  absl::Status start() {
    if (!given_.empty() && given_.size() != outputs_.size()) {
      return bad_argument(
          "autograd::backward", "one gradient for each output, or none",
          absl::StrCat(outputs_.size()), absl::StrCat(given_.size()));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Tensor& output = outputs_[i];
      const Edge edge = output.defined() ? internal::edge_of(&output) : Edge();
      if (!edge.node) {
        return bad_argument(
            "autograd::backward",
            absl::StrCat("output ", i + 1, " requires no gradient"),
            "an output of tensors that require one", output.text());
      }
      Tensor grad = i < given_.size() ? given_[i] : Tensor();
      if (!grad.defined()) {
        if (output.count() != 1) {
          return bad_argument(
              "autograd::backward",
              absl::StrCat("output ", i + 1, " needs its gradient"),
              "an output of one element, or its gradient", output.text());
        }
        absl::StatusOr<Tensor> one = ops::full_like(output, 1);
        if (!one.ok()) return std::move(one).status();
        grad = *std::move(one);
      }
      absl::Status status = add(edge, std::move(grad), "the caller");
      if (!status.ok()) return status;
      roots_.push_back(edge.node);
    }
    count_dependents();
    return absl::OkStatus();
  }

  void count_dependents() {
    std::vector<NodePtr> stack;
    for (const NodePtr& root : roots_) {
      if (seen_.insert(root.get()).second) stack.push_back(root);
    }
    while (!stack.empty()) {
      const NodePtr node = std::move(stack.back());
      stack.pop_back();
      order_.push_back(node);
      for (const Edge& edge : node->edges) {
        if (!edge.node) continue;
        ++states_[edge.node.get()].dependents;
        if (seen_.insert(edge.node.get()).second) stack.push_back(edge.node);
      }
    }
  }

  // Only nodes that lead to an input run. Older nodes come later in a graph, so
  // from the oldest on every node's successors are known.
  void mark_wanted() {
    std::vector<NodePtr> by_age = order_;
    std::sort(by_age.begin(), by_age.end(),
              [](const NodePtr& a, const NodePtr& b) {
                const bool leaf_a = a->edges.empty(), leaf_b = b->edges.empty();
                return leaf_a != leaf_b ? leaf_a : a->number() < b->number();
              });
    for (const NodePtr& node : by_age) {
      bool wanted = captured_.contains(node.get());
      for (const Edge& edge : node->edges) {
        wanted = wanted || (edge.node && states_[edge.node.get()].wanted);
      }
      states_[node.get()].wanted = wanted;
    }
  }

  absl::Status visit_all() {
    std::priority_queue<NodePtr, std::vector<NodePtr>, Later> ready;
    absl::flat_hash_set<Node*> queued;
    for (const NodePtr& root : roots_) {
      if (states_[root.get()].dependents == 0 &&
          queued.insert(root.get()).second) {
        ready.push(root);
      }
    }
    roots_.clear();
    order_.clear();
    while (!ready.empty()) {
      const NodePtr node = ready.top();
      ready.pop();
      NodeState state = std::move(states_[node.get()]);
      states_.erase(node.get());
      if (state.wanted) {
        absl::Status status = visit(*node, std::move(state.grads));
        if (!status.ok()) return status;
      }
      for (const Edge& edge : node->edges) {
        if (edge.node && --states_[edge.node.get()].dependents == 0) {
          ready.push(edge.node);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status visit(Node& node, Grads grads) {
    grads.resize(node.outputs.size());
    for (const auto& [output, hook] : node.output_hooks) {
      if (!grads[output].defined()) continue;
      absl::StatusOr<Tensor> replaced = hook(grads[output]);
      if (!replaced.ok()) return in_node(node, std::move(replaced).status());
      if (replaced->defined()) grads[output] = *std::move(replaced);
    }
    if (const auto found = captured_.find(&node); found != captured_.end()) {
      for (const Captured& one : found->second) {
        results_[one.input] = grads[one.output];
      }
      // A leaf's gradient is taken here and not added to grad().
      if (node.edges.empty()) return absl::OkStatus();
    } else if (!captured_.empty() && node.edges.empty()) {
      return absl::OkStatus();
    }
    const bool none = std::none_of(grads.begin(), grads.end(),
                                   [](const Tensor& g) { return g.defined(); });
    if (none) return absl::OkStatus();
    const Grads outputs = node.hooks.empty() ? Grads() : grads;
    absl::StatusOr<Grads> results = guarded(node, std::move(grads));
    if (!results.ok()) return in_node(node, std::move(results).status());
    if (!node.edges.empty() && results->size() != node.edges.size()) {
      return bad_argument(node.name(),
                          "backward() gave another number of gradients than "
                          "there are inputs",
                          absl::StrCat(node.edges.size()),
                          absl::StrCat(results->size()));
    }
    for (const Node::Hook& hook : node.hooks) {
      absl::Status status = hook(*results, outputs);
      if (!status.ok()) return in_node(node, std::move(status));
    }
    if (!options_.retain_graph && !options_.create_graph) node.release();
    for (size_t i = 0; i < node.edges.size(); ++i) {
      if (!node.edges[i].node || !(*results)[i].defined()) continue;
      absl::Status status =
          add(node.edges[i], std::move((*results)[i]), node.name());
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Grads> guarded(Node& node, Grads grads) {
    try {
      return node.backward(std::move(grads));
    } catch (...) {
      return dispatch::status_of_exception();
    }
  }

  absl::Status add(const Edge& edge, Tensor grad, const std::string& from) {
    const OutputShape& shape = edge.node->outputs[edge.output];
    if (grad.sizes() != absl::MakeConstSpan(shape.sizes) ||
        grad.dtype() != shape.dtype) {
      return make_error({.reason = Reason::kGradShape,
                         .what = absl::StrCat("the gradient from ", from,
                                              " does not fit the output of ",
                                              edge.node->name()),
                         .op = "autograd",
                         .expected = absl::StrCat(dtype_name(shape.dtype), " ",
                                                  dims_text(shape.sizes)),
                         .actual = grad.text()});
    }
    Grads& grads = states_[edge.node.get()].grads;
    if (grads.size() <= edge.output) grads.resize(edge.output + 1);
    Tensor& sum = grads[edge.output];
    if (!sum.defined()) {
      sum = std::move(grad);
      return absl::OkStatus();
    }
    absl::StatusOr<Tensor> both = ops::add(sum, grad);
    if (!both.ok()) return std::move(both).status();
    sum = *std::move(both);
    return absl::OkStatus();
  }

  // The error with the name of the node in which it came up.
  static absl::Status in_node(const Node& node, const absl::Status& status) {
    std::optional<ErrorInfo> info = error_info(status);
    if (!info.has_value()) return status;
    const std::string name = node.name();
    if (info->op == name) return status;
    info->what = absl::StrCat("backward of ", name, ": ", info->what);
    return make_error(*info);
  }

  TensorList outputs_, given_;
  const BackwardOptions options_;
  std::vector<NodePtr> roots_, order_, kept_;
  absl::flat_hash_set<Node*> seen_;
  absl::flat_hash_map<Node*, NodeState> states_;
  absl::flat_hash_map<Node*, std::vector<Captured>> captured_;
  std::vector<Tensor> results_;
};

}  // namespace

absl::Status backward(TensorList outputs, TensorList grads,
                      const BackwardOptions& options) {
  const NoGradGuard mode(!options.create_graph);
  return Run(outputs, grads, options).backward();
}

absl::StatusOr<std::vector<Tensor>> grad(TensorList outputs, TensorList inputs,
                                         TensorList grads,
                                         const BackwardOptions& options) {
  const NoGradGuard mode(!options.create_graph);
  return Run(outputs, grads, options).grad(inputs);
}

}  // namespace distwrap::autograd
