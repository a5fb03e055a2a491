// Gradients against central differences.
#include "dispatch/autograd/state.h"
#include "dispatch/fail.h"
#include "distwrap/throwing.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <utility>

namespace distwrap::autograd {
namespace {

// The address of element `index`, counted row-major.
double* element(const Tensor& tensor, int64_t index) {
  double* at = tensor.data<double>();
  for (int d = tensor.dims() - 1; d >= 0; --d) {
    at += index % tensor.size(d) * tensor.stride(d);
    index /= tensor.size(d);
  }
  return at;
}

// The outputs that have gradients, each times fixed numbers, summed.
Tensor weighted_sum(const std::vector<Tensor>& outputs) {
  Tensor sum = throwing::zeros({}, DType::kF64);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || outputs[i].dtype() != DType::kF64) continue;
    const Tensor weights =
        throwing::randn(outputs[i].sizes(), DType::kF64, kCpu,
                        Generator{.seed = 977, .call = i});
    sum = throwing::add(sum, throwing::sum(throwing::mul(outputs[i], weights)));
  }
  return sum;
}

absl::Status compare(const Checked& function, TensorList inputs,
                     const CheckOptions& options) {
  std::vector<Tensor> wanted;
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) wanted.push_back(input);
  }
  const Tensor sum = weighted_sum(throwing::unwrap(function(inputs)));
  std::vector<Tensor> grads(wanted.size());
  if (sum.requires_grad()) {
    grads = throwing::unwrap(grad({sum}, wanted, {}, {.allow_unused = true}));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Tensor& input = wanted[i];
    const Tensor analytic = grads[i].defined()
                                ? throwing::contiguous(grads[i])
                                : throwing::zeros(input.sizes(), DType::kF64);
    for (int64_t at = 0; at < input.count(); ++at) {
      double* const place = element(input, at);
      const double before = *place;
      double values[2];
      for (int side = 0; side < 2; ++side) {
        *place = before + (side == 0 ? options.eps : -options.eps);
        const NoGradGuard off;
        // An output may share the input's memory.
        absl::StatusOr<std::vector<Tensor>> outputs = function(inputs);
        absl::StatusOr<Scalar> sum_at =
            outputs.ok() ? weighted_sum(*outputs).item() : outputs.status();
        *place = before;
        values[side] = throwing::unwrap(std::move(sum_at)).to<double>();
      }
      const double numeric = (values[0] - values[1]) / (2 * options.eps);
      const double found = analytic.data<double>()[at];
      if (!(std::fabs(numeric - found) <=
            options.atol + options.rtol * std::fabs(numeric))) {
        return make_error(
            {.reason = Reason::kGradShape,
             .what = absl::StrCat("input ", i + 1, ", element ", at,
                                  ": the gradient differs from central "
                                  "differences"),
             .op = "grad_check",
             .expected = absl::StrCat(numeric),
             .actual = absl::StrCat(found)});
      }
    }
  }
  return absl::OkStatus();
}

absl::Status check_inputs(TensorList inputs) {
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad() &&
        (input.dtype() != DType::kF64 || input.device() != kCpu)) {
      return dispatch::bad_argument("grad_check", "an input is not f64 on cpu",
                                    "f64 in host memory", input.text());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status grad_check(const Checked& function, TensorList inputs,
                        const CheckOptions& options) {
  absl::Status status = check_inputs(inputs);
  if (!status.ok()) return status;
  try {
    return compare(function, inputs, options);
  } catch (...) {
    return dispatch::status_of_exception();
  }
}

absl::Status grad_grad_check(const Checked& function, TensorList inputs,
                             const CheckOptions& options) {
  absl::Status status = check_inputs(inputs);
  if (!status.ok()) return status;
  try {
    // The gradients as a function of the inputs and of the outputs' gradients.
    const std::vector<Tensor> outputs = throwing::unwrap(function(inputs));
    std::vector<Tensor> all(inputs.begin(), inputs.end());
    std::vector<size_t> used;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
      used.push_back(i);
      all.push_back(throwing::randn(outputs[i].sizes(), DType::kF64, kCpu,
                                    Generator{.seed = 978, .call = i}));
      throwing::check(all.back().set_requires_grad());
    }
    const size_t count = inputs.size();
    const Checked gradients =
        [&](TensorList given) -> absl::StatusOr<std::vector<Tensor>> {
      const EnableGradGuard on;
      absl::StatusOr<std::vector<Tensor>> results =
          function(given.first(count));
      if (!results.ok()) return results;
      std::vector<Tensor> from, to;
      for (const size_t i : used) from.push_back((*results)[i]);
      for (const Tensor& one : given.first(count)) {
        if (one.defined() && one.requires_grad()) to.push_back(one);
      }
      return grad(from, to, given.subspan(count),
                  {.create_graph = true, .allow_unused = true});
    };
    return compare(gradients, all, options);
  } catch (...) {
    return dispatch::status_of_exception();
  }
}

}  // namespace distwrap::autograd
