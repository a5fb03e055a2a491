// Formulas at the edges: tensors without elements, of no dimension, and sizes
// that broadcast.
#include "distwrap/autograd.h"
#include "distwrap/throwing.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)
using Tensors = std::vector<Tensor>;

Tensor values(Ints sizes, uint64_t call) {
  Tensor x = throwing::rand(sizes, DType::kF64, kCpu,
                            Generator{.seed = 9, .call = call}) +
             Scalar(0.5);
  check(x.set_requires_grad());
  return x;
}
Tensor indices(std::vector<int64_t> numbers, Ints sizes) {
  Tensor x = *Tensor::empty(sizes, DType::kI64);
  std::copy(numbers.begin(), numbers.end(), x.data<int64_t>());
  return x;
}
Tensor below(const Tensor& x, double limit) {
  return lt(detach(x), Scalar(limit));
}

// Compares once and twice, and that the gradient has the input's sizes.
void expect_right(const char* what, const Tensors& inputs,
                  const std::function<Tensors(TensorList)>& run) {
  const Checked function = [&](TensorList given) -> absl::StatusOr<Tensors> {
    return run(given);
  };
  const absl::Status once = grad_check(function, inputs);
  EXPECT_TRUE(once.ok()) << what << ": " << once;
  const absl::Status twice = grad_grad_check(function, inputs);
  EXPECT_TRUE(twice.ok()) << what << ": " << twice;
  Tensor total = zeros({}, DType::kF64);
  for (const Tensor& one : run(inputs)) total = total + sum(one);
  const Tensors grads =
      unwrap(grad({total}, inputs, {}, {.allow_unused = true}));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!grads[i].defined()) continue;
    EXPECT_EQ(grads[i].sizes(), inputs[i].sizes()) << what << " " << i;
  }
}
#define DW_RIGHT(inputs, ...)                                   \
  expect_right(#__VA_ARGS__, Tensors inputs, [](TensorList x) { \
    (void)x;                                                    \
    return Tensors{__VA_ARGS__};                                \
  })

TEST(Edges, ShapesOfEmptyTensors) {
  DW_RIGHT(({values({0, 6}, 1)}), view(x[0], {0, 2, 3}));
  DW_RIGHT(({values({0, 6}, 1)}), reshape(x[0], {3, 0}));
  DW_RIGHT(({values({2, 0, 3}, 1)}), permute(x[0], {2, 1, 0}));
  DW_RIGHT(({values({2, 0, 3}, 1)}), transpose(x[0], 0, 1));
  DW_RIGHT(({values({0, 1}, 1)}), expand(x[0], {2, 0, 4}));
  DW_RIGHT(({values({0, 1}, 1)}), squeeze(x[0], 1), unsqueeze(x[0], 0));
  DW_RIGHT(({values({2, 0}, 1)}), select(x[0], 0, 1));
  DW_RIGHT(({values({3, 2}, 1)}), slice(x[0], 0, 2, 2), narrow(x[0], 1, 1, 0));
  expect_right("split", {values({3, 0}, 1)}, [](TensorList x) {
    return split(x[0], {1, 2});
  });
  expect_right("unbind", {values({2, 0}, 1)},
               [](TensorList x) { return unbind(x[0]); });
  DW_RIGHT(({values({4}, 1)}), as_strided(x[0], {0, 2}, {1, 1}, 1));
  DW_RIGHT(({values({0, 2}, 1), values({3, 2}, 2)}), cat({x[0], x[1]}, 0));
  DW_RIGHT(({values({0}, 1), values({0}, 2)}), stack({x[0], x[1]}, 1));
  DW_RIGHT(({values({0, 3}, 1)}), pad(x[0], {0, 0, 1, 1}, 2.0));
  DW_RIGHT(({values({4, 2}, 1), values({0, 2}, 2)}),
           slice_scatter(x[0], x[1], 0, 1, 1));
  DW_RIGHT(({values({0, 3}, 1)}), to_copy(x[0], DType::kF64, kCpu),
           clone(x[0]));
}

TEST(Edges, ArithmeticOfEmptyTensors) {
  DW_RIGHT(({values({0, 3}, 1), values({1, 3}, 2)}), x[0] + x[1], x[0] - x[1],
           x[0] * x[1], x[0] / x[1], maximum(x[0], x[1]), minimum(x[0], x[1]));
  DW_RIGHT(({values({0, 3}, 1), values({3}, 2)}),
           where(below(x[0], 1), x[0], x[1]), clamp(x[0], 0.1, 0.9),
           masked_fill(x[0], below(x[0], 1), 3.0));
  DW_RIGHT(({values({2, 0}, 1), values({0, 3}, 2)}), mm(x[0], x[1]),
           matmul(x[0], x[1]), einsum("ij,jk->ik", {x[0], x[1]}));
  DW_RIGHT(({values({0, 2}, 1), values({2, 3}, 2)}), mm(x[0], x[1]));
  DW_RIGHT(({values({0, 2, 3}, 1), values({0, 3, 2}, 2)}), bmm(x[0], x[1]));
  DW_RIGHT(({values({0, 3}, 1), values({4, 3}, 2), values({4}, 3)}),
           linear(x[0], x[1], &x[2]));
  DW_RIGHT(({values({3}, 1), values({0, 2}, 2), values({2, 3}, 3)}),
           addmm(x[0], x[1], x[2]));
  DW_RIGHT(({values({0, 3}, 1)}), sum(x[0]), sum(x[0], Ints({0})),
           sum(x[0], Ints({1}), true), amax(x[0], Ints({1})),
           logsumexp(x[0], Ints({1})), mean(x[0], Ints({1})),
           var(x[0], Ints({1})));
}

TEST(Edges, IndicesAndFusedOfEmptyTensors) {
  DW_RIGHT(({values({3, 2}, 1)}), gather(x[0], 0, indices({}, {0, 2})),
           embedding(x[0], indices({}, {0})));
  DW_RIGHT(({values({3, 2}, 1), values({0, 2}, 2)}),
           scatter_add(x[0], 0, indices({}, {0, 2}), x[1]),
           index_add(x[0], 0, indices({}, {0}), x[1]));
  DW_RIGHT(({values({0, 4}, 1)}), softmax(x[0]), log_softmax(x[0]),
           softmax(x[0], 0), dropout(x[0], 0.5, true, Generator{1, 2}));
  DW_RIGHT(({values({0, 4}, 1), values({4}, 2), values({4}, 3)}),
           layer_norm(x[0], &x[1], &x[2]), rms_norm(x[0], &x[1]));
  DW_RIGHT(({values({0, 2}, 1), values({3, 2}, 2), values({3, 4}, 3)}),
           attention(x[0], x[1], x[2]));
}

TEST(Edges, TensorsOfNoDimension) {
  DW_RIGHT(({values({}, 1)}), view(x[0], {1, 1}), permute(x[0], {}),
           expand(x[0], {2, 3}), unsqueeze(x[0], 0), reshape(x[0], {1}),
           to_copy(x[0], DType::kF64, kCpu), clone(x[0]));
  DW_RIGHT(({values({}, 1), values({}, 2)}), stack({x[0], x[1]}),
           where(below(x[0], 1), x[0], x[1]), x[0] * x[1], x[0] / x[1]);
  DW_RIGHT(({values({}, 1)}), clamp(x[0], 0.1, 2.0),
           masked_fill(x[0], below(x[0], 0), 3.0), sum(x[0]), amax(x[0]),
           mean(x[0]), logsumexp(x[0]),
           dropout(x[0], 0.5, true, Generator{1, 2}));
  DW_RIGHT(({values({3}, 1), values({3}, 2)}), matmul(x[0], x[1]),
           einsum("i,i->", {x[0], x[1]}));
}

TEST(Edges, SizesThatBroadcast) {
  DW_RIGHT(({values({2, 1, 2, 3}, 1), values({4, 3, 2}, 2)}),
           matmul(x[0], x[1]));
  DW_RIGHT(({values({1, 2}, 1), values({3, 2}, 2), values({2, 2}, 3)}),
           addmm(x[0], x[1], x[2]));
  DW_RIGHT(
      ({values({2, 1}, 1), values({3}, 2)}), where(below(x[0], 1), x[0], x[1]),
      masked_fill(x[0] * 1.0, below(sum(x[1]), 9), 2.0), maximum(x[0], x[1]));
  DW_RIGHT(({values({1, 1, 3, 2}, 1), values({2, 2, 4, 2}, 2),
             values({2, 2, 4, 2}, 3)}),
           attention(expand(x[0], {2, 2, 3, 2}), x[1], x[2]));
}

TEST(Edges, WritesInPlace) {
  for (const Dims& sizes : {Dims{0, 3}, Dims{}, Dims{2, 3}}) {
    const bool number = sizes.empty();
    const Dims others = number ? Dims{} : Dims{3};
    expect_right("in place", {values(sizes, 1), values(others, 2)},
                 [](TensorList x) {
                   const Tensor y = x[0] * 2.0, z = x[0] * 3.0;
                   add_(y, x[1]);
                   mul_(y, x[1]);
                   copy_(z, x[1]);
                   const Tensor w = x[0] * 4.0;
                   fill_(w, 1.0);
                   return Tensors{y, z, w * x[0]};
                 });
  }
}

}  // namespace
}  // namespace distwrap::autograd
