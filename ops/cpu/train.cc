// nll_loss and adamw_, the ends of a training step.
#include "cpu/cascade.h"
#include "cpu/convert.h"
#include "cpu/index.h"
#include "cpu/pass.h"
#include "cpu/strided_copy.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <cmath>
#include <utility>
#include <vector>

namespace distwrap::cpu {
namespace {

template <class T>
void mean_loss(const Tensor& out, const Tensor& log_probs,
               const std::vector<int64_t>& targets, int64_t ignored) {
  const int64_t size = dtype_size(log_probs.dtype());
  std::vector<T> losses;
  losses.reserve(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    const int64_t offset = static_cast<int64_t>(i) * log_probs.stride(0) +
                           targets[i] * log_probs.stride(1);
    T room;
    losses.push_back(
        -*read_row(log_probs.dtype(),
                   static_cast<const char*>(log_probs.data()) + offset * size,
                   1, 1, &room));
  }
  const auto count = static_cast<int64_t>(losses.size());
  // Without targets this is 0 / 0, which is NaN.
  const T mean = sum_row(losses.data(), count) / static_cast<T>(count);
  write_row(out.dtype(), out.data(), 1, 1, &mean);
}

}  // namespace

absl::StatusOr<Tensor> nll_loss(const Tensor& self, const Tensor& target,
                                int64_t ignore_index) {
  absl::StatusOr<Tensor> out = outputs::nll_loss(self, target);
  if (!out.ok()) return out;
  absl::StatusOr<std::vector<int64_t>> targets =
      indices_of("dw::nll_loss", "target", target, self.size(1), ignore_index);
  if (!targets.ok()) return std::move(targets).status();
  if (self.dtype() == DType::kF64) {
    mean_loss<double>(*out, self, *targets, ignore_index);
  } else {
    mean_loss<float>(*out, self, *targets, ignore_index);
  }
  return out;
}

absl::Status adamw_(const Tensor& self, const Tensor& grad, const Tensor& mean,
                    const Tensor& variance, int64_t step, double lr,
                    double beta1, double beta2, double eps,
                    double weight_decay) {
  if (absl::Status status = outputs::adamw_(self, grad, mean, variance, step);
      !status.ok()) {
    return status;
  }
  const double count = static_cast<double>(step);
  const AdamwParams params{
      .decay = 1 - lr * weight_decay,
      .beta1 = beta1,
      .beta2 = beta2,
      .step_size = lr / (1 - std::pow(beta1, count)),
      .correction = 1 / std::sqrt(1 - std::pow(beta2, count)),
      .eps = eps};
  Tensor own = grad;
  for (const Tensor* written : {&self, &mean, &variance}) {
    if (!share_memory(*written, own)) continue;
    absl::StatusOr<Tensor> copy = copy_of(grad);
    if (!copy.ok()) return std::move(copy).status();
    own = *std::move(copy);
  }
  Pass pass(self.sizes());
  pass.updates(self);
  pass.updates(mean);
  pass.updates(variance);
  pass.reads(own);
  pass.run(loops().find(Op::kAdamw, compute_type(self.dtype())), &params);
  return absl::OkStatus();
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::nll_loss", {kDense, kCpu}, kernel<&nll_loss>());
  lib.impl("dw::adamw_", {kDense, kCpu}, kernel<&adamw_>());
}

}  // namespace distwrap::cpu
