// Runs 1000 calls of an operator in ways that cost differently, each in a
// function of its own, which tests/crossing/count_instructions.sh counts under
// callgrind. The kernels do no arithmetic.
#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/registration.h"

#include <cstdio>

namespace {

using namespace distwrap;            // NOLINT(google-build-using-namespace)
using namespace distwrap::dispatch;  // NOLINT(google-build-using-namespace)

constexpr int kCalls = 1000;

int64_t nothing(const Tensor& /*a*/, const Tensor& /*b*/) { return 1; }
absl::StatusOr<Tensor> only_output(const Tensor& a, const Tensor& /*b*/) {
  return Tensor::empty(a.sizes(), a.dtype(), a.device());
}
absl::Status pass_on(const OpHandle& op, KeySet set, Stack& stack) {
  return op.redispatch_boxed(set.below(kUser1), stack);
}

using Pair = int64_t(const Tensor&, const Tensor&);
using Output = Tensor(const Tensor&, const Tensor&);

struct Noted : autograd::Formula<Noted> {
  static constexpr char kName[] = "count::output";
  static absl::StatusOr<Tensor> forward(autograd::Ctx& ctx, const Tensor& a,
                                        const Tensor& b) {
    static const auto op = find_op<Output>("count::output");
    ctx.save_for_backward({a, b});
    return op.call(a, b);
  }
  static autograd::Grads backward(autograd::Ctx& /*ctx*/,
                                  absl::Span<const Tensor> grads) {
    return {grads[0], grads[0]};
  }
};

DW_OPERATORS(lib) {
  Namespace own = lib.own("count");
  own.def("pair(Tensor a, Tensor b) -> int");
  own.def("output(Tensor a, Tensor b) -> Tensor");
  own.impl("pair", {kDense, kCpu}, kernel<&nothing>());
  own.impl("output", {kDense, kCpu}, kernel<&only_output>());
  own.impl("output", kAutograd, autograd::formula<Noted, Output>());
  lib.fallback(kUser1, boxed(&pass_on));
}

struct Calls {
  Op<Pair> pair = find_op<Pair>("count::pair");
  Op<Output> output = find_op<Output>("count::output");
  Tensor a = *Tensor::empty({2, 2}), b = *Tensor::empty({2, 2});
  Tensor leaf = *Tensor::empty({2, 2});
  Pair* volatile direct = &nothing;
};

}  // namespace

extern "C" {

[[gnu::noinline]] int64_t count_direct(Calls& calls) {
  int64_t sum = 0;
  for (int i = 0; i < kCalls; ++i) sum += calls.direct(calls.a, calls.b);
  return sum;
}

[[gnu::noinline]] int64_t count_typed(Calls& calls) {
  int64_t sum = 0;
  for (int i = 0; i < kCalls; ++i) sum += *calls.pair.call(calls.a, calls.b);
  return sum;
}

[[gnu::noinline]] int64_t count_boxed(Calls& calls) {
  const IncludeGuard guard{KeySet(kUser1)};
  int64_t sum = 0;
  for (int i = 0; i < kCalls; ++i) sum += *calls.pair.call(calls.a, calls.b);
  return sum;
}

[[gnu::noinline]] int64_t count_output(Calls& calls) {
  int64_t sum = 0;
  for (int i = 0; i < kCalls; ++i) {
    sum += calls.output.call(calls.a, calls.b).ok() ? 1 : 0;
  }
  return sum;
}

[[gnu::noinline]] int64_t count_noted(Calls& calls) {
  int64_t sum = 0;
  for (int i = 0; i < kCalls; ++i) {
    sum += calls.output.call(calls.leaf, calls.b).ok() ? 1 : 0;
  }
  return sum;
}
}

int main() {
  Calls calls;
  if (!calls.leaf.set_requires_grad().ok() || !registry_status().ok()) return 1;
  // The first calls bind names and make the thread known.
  for (int i = 0; i < 2; ++i) {
    const IncludeGuard guard{KeySet(i == 0 ? kUser1 : kUser2)};
    if (!calls.pair.call(calls.a, calls.b).ok() ||
        !calls.output.call(calls.a, calls.b).ok() ||
        !calls.output.call(calls.leaf, calls.b).ok()) {
      return 1;
    }
  }
  const int64_t sum = count_direct(calls) + count_typed(calls) +
                      count_boxed(calls) + count_output(calls) +
                      count_noted(calls);
  return sum == 5 * kCalls ? 0 : 1;
}
