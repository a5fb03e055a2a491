// Every formula against central differences, once and twice differentiated.
#include "distwrap/autograd.h"
#include "distwrap/throwing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>

namespace distwrap::autograd {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

Tensor values(Ints sizes, uint64_t call, double low = -2, double high = 2) {
  Tensor x = throwing::rand(sizes, DType::kF64, kCpu,
                            Generator{.seed = 5, .call = call}) *
                 (high - low) +
             Scalar(low);
  check(x.set_requires_grad());
  return x;
}
// A transposed view of a leaf that is not the input of the check: strides that
// are not row-major.
Tensor strided(Ints sizes, uint64_t call, double low = -2, double high = 2) {
  const NoGradGuard off;
  Dims turned(sizes.begin(), sizes.end());
  std::reverse(turned.begin(), turned.end());
  Tensor x = throwing::detach(values(turned, call, low, high));
  Dims order;
  for (size_t d = sizes.size(); d-- > 0;) {
    order.push_back(static_cast<int64_t>(d));
  }
  x = throwing::detach(throwing::permute(x, order));
  check(x.set_requires_grad());
  return x;
}
Tensor indices(std::vector<int64_t> values, Ints sizes) {
  Tensor x = *Tensor::empty(sizes, DType::kI64);
  std::copy(values.begin(), values.end(), x.data<int64_t>());
  return x;
}

struct Case {
  const char* name;
  std::function<std::vector<Tensor>()> inputs;
  std::function<std::vector<Tensor>(TensorList)> run;
};
std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name;
}

class Gradients : public ::testing::TestWithParam<Case> {};

TEST_P(Gradients, AreThoseOfCentralDifferences) {
  const Case& one = GetParam();
  const std::vector<Tensor> inputs = one.inputs();
  const Checked function =
      [&](TensorList given) -> absl::StatusOr<std::vector<Tensor>> {
    return one.run(given);
  };
  const absl::Status once = grad_check(function, inputs);
  EXPECT_TRUE(once.ok()) << once;
  const absl::Status twice = grad_grad_check(function, inputs);
  EXPECT_TRUE(twice.ok()) << twice;
}

// Every formula again, for inputs whose strides are not row-major.
TEST_P(Gradients, OfStridedInputsAreTheSame) {
  const Case& one = GetParam();
  std::vector<Tensor> inputs;
  for (const Tensor& input : one.inputs()) {
    const NoGradGuard off;
    Dims turned(input.sizes().begin(), input.sizes().end()), order;
    std::reverse(turned.begin(), turned.end());
    for (size_t d = turned.size(); d-- > 0;) {
      order.push_back(static_cast<int64_t>(d));
    }
    const Tensor memory = throwing::full(turned, 0.0, DType::kF64);
    const Tensor view = throwing::permute(memory, order);
    throwing::copy_(view, throwing::detach(input));
    inputs.push_back(throwing::detach(view));
    check(inputs.back().set_requires_grad());
  }
  const Checked function =
      [&](TensorList given) -> absl::StatusOr<std::vector<Tensor>> {
    // These two views are made of row-major tensors only.
    const std::string name = one.name;
    if (name == "view" || name == "as_strided") {
      return one.run(std::vector<Tensor>{throwing::contiguous(given[0])});
    }
    return one.run(given);
  };
  const absl::Status once = grad_check(function, inputs);
  EXPECT_TRUE(once.ok()) << once;
  const absl::Status twice = grad_grad_check(function, inputs);
  EXPECT_TRUE(twice.ok()) << twice;
}

#define DW_INPUTS(...) [] { return std::vector<Tensor>{__VA_ARGS__}; }
#define DW_RUN(...) \
  [](TensorList x) { return std::vector<Tensor>{__VA_ARGS__}; }

#define DW_UNARY(operation, low, high)                                      \
  Case{#operation, DW_INPUTS(values({2, 3}, 1, low, high)),                 \
       DW_RUN(throwing::operation(x[0]))},                                  \
      Case{#operation "_strided", DW_INPUTS(strided({2, 3}, 2, low, high)), \
           DW_RUN(throwing::operation(x[0]))},                              \
      Case {                                                                \
#operation "_empty_and_0d",                                             \
        DW_INPUTS(values({0, 3}, 1, low, high), values({}, 3, low, high)),  \
        DW_RUN(throwing::operation(x[0]), throwing::operation(x[1]))        \
  }

#define DW_BINARY(operation, low, high)                                       \
  Case{#operation,                                                            \
       DW_INPUTS(values({2, 3}, 1, low, high), values({2, 3}, 2, low, high)), \
       DW_RUN(throwing::operation(x[0], x[1]))},                              \
      Case{#operation "_broadcast",                                           \
           DW_INPUTS(strided({2, 1, 3}, 1, low, high),                        \
                     values({4, 1}, 2, low, high)),                           \
           DW_RUN(throwing::operation(x[0], x[1]))},                          \
      Case {                                                                  \
#operation "_number",                                                     \
        DW_INPUTS(values({}, 1, low, high), values({3}, 2, low, high)),       \
        DW_RUN(throwing::operation(x[0], x[1]))                               \
  }

INSTANTIATE_TEST_SUITE_P(
    Pointwise, Gradients,
    ::testing::Values(DW_UNARY(neg, -2, 2), DW_UNARY(abs, 0.5, 2),
                      DW_UNARY(exp, -2, 2), DW_UNARY(log, 0.5, 3),
                      DW_UNARY(sqrt, 0.5, 3), DW_UNARY(rsqrt, 0.5, 3),
                      DW_UNARY(sin, -2, 2), DW_UNARY(cos, -2, 2),
                      DW_UNARY(tanh, -2, 2), DW_UNARY(sigmoid, -2, 2),
                      DW_UNARY(relu, 0.1, 2), DW_UNARY(gelu, -2, 2),
                      DW_UNARY(silu, -2, 2), DW_UNARY(clone, -2, 2)),
    ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(
    TwoInputs, Gradients,
    ::testing::Values(
        DW_BINARY(add, -2, 2), DW_BINARY(sub, -2, 2), DW_BINARY(mul, -2, 2),
        DW_BINARY(div, 0.5, 3), DW_BINARY(maximum, -2, 2),
        DW_BINARY(minimum, -2, 2),
        Case{"add_alpha", DW_INPUTS(values({2}, 1), values({2}, 2)),
             DW_RUN(throwing::add(x[0], x[1], 2.5))},
        Case{"where", DW_INPUTS(values({2, 3}, 1), values({3}, 2)),
             DW_RUN(throwing::where(throwing::lt(throwing::detach(x[0]),
                                                 Scalar(0.0)),
                                    x[0], x[1]))},
        Case{"clamp", DW_INPUTS(values({5}, 1)),
             DW_RUN(throwing::clamp(x[0], -0.5, 0.7))},
        Case{"masked_fill", DW_INPUTS(values({2, 3}, 1)),
             DW_RUN(throwing::masked_fill(
                 x[0], throwing::lt(throwing::detach(x[0]), Scalar(0.0)),
                 3.0))}),
    ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(
    Shapes, Gradients,
    ::testing::Values(Case{"view", DW_INPUTS(values({2, 6}, 1)),
                           DW_RUN(throwing::view(x[0], {3, 4}))},
                      Case{"reshape", DW_INPUTS(strided({2, 6}, 1)),
                           DW_RUN(throwing::reshape(x[0], {3, -1}))},
                      Case{"permute", DW_INPUTS(values({2, 3, 4}, 1)),
                           DW_RUN(throwing::permute(x[0], {2, 0, 1}))},
                      Case{"transpose", DW_INPUTS(strided({2, 3}, 1)),
                           DW_RUN(throwing::transpose(x[0]))},
                      Case{"expand", DW_INPUTS(values({2, 1}, 1)),
                           DW_RUN(throwing::expand(x[0], {3, 2, 4}))},
                      Case{"squeeze", DW_INPUTS(values({2, 1, 3}, 1)),
                           DW_RUN(throwing::squeeze(x[0], 1),
                                  throwing::squeeze(x[0], 0))},
                      Case{"unsqueeze", DW_INPUTS(values({2, 3}, 1)),
                           DW_RUN(throwing::unsqueeze(x[0], -1))},
                      Case{"select", DW_INPUTS(values({2, 3}, 1)),
                           DW_RUN(throwing::select(x[0], 1, -1))},
                      Case{"slice", DW_INPUTS(values({5, 2}, 1)),
                           DW_RUN(throwing::slice(x[0], 0, 1, 5, 2),
                                  throwing::slice(x[0], 1, 0, -1))},
                      Case{"split", DW_INPUTS(values({5, 2}, 1)),
                           [](TensorList x) {
                             return throwing::split(x[0], {2, 0, 3});
                           }},
                      Case{"unbind", DW_INPUTS(values({3, 2}, 1)),
                           [](TensorList x) {
                             return throwing::unbind(x[0], 1);
                           }},
                      Case{"narrow", DW_INPUTS(values({5, 2}, 1)),
                           DW_RUN(throwing::narrow(x[0], 0, 1, 3))},
                      Case{"as_strided", DW_INPUTS(values({3, 4}, 1)),
                           DW_RUN(throwing::as_strided(x[0], {2, 3}, {1, 1},
                                                       2))},
                      Case{"cat",
                           DW_INPUTS(values({2, 3}, 1), strided({2, 2}, 2)),
                           DW_RUN(throwing::cat({x[0], x[1], x[0]}, 1))},
                      Case{"stack",
                           DW_INPUTS(values({2, 3}, 1), values({2, 3}, 2)),
                           DW_RUN(throwing::stack({x[0], x[1]}, -1))},
                      Case{"pad", DW_INPUTS(values({2, 3}, 1)),
                           DW_RUN(throwing::pad(x[0], {1, 2, 0, 1}, 4.0),
                                  throwing::pad(x[0], {-1, 1}))},
                      Case{"slice_scatter",
                           DW_INPUTS(values({4, 3}, 1), values({2, 3}, 2)),
                           DW_RUN(throwing::slice_scatter(x[0], x[1], 0, 0, 4,
                                                          2))},
                      Case{"to_copy", DW_INPUTS(values({2, 3}, 1)),
                           DW_RUN(throwing::to_copy(x[0], DType::kF64, kCpu))}),
    ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(
    Contractions, Gradients,
    ::testing::Values(
        Case{"mm", DW_INPUTS(values({2, 3}, 1), strided({3, 4}, 2)),
             DW_RUN(throwing::mm(x[0], x[1]))},
        Case{"bmm", DW_INPUTS(values({2, 2, 3}, 1), values({2, 3, 2}, 2)),
             DW_RUN(throwing::bmm(x[0], x[1]))},
        Case{"matmul", DW_INPUTS(values({2, 1, 2, 3}, 1), values({2, 3, 2}, 2)),
             DW_RUN(throwing::matmul(x[0], x[1]))},
        Case{
            "matmul_vectors", DW_INPUTS(values({3}, 1), values({3, 2}, 2)),
            DW_RUN(throwing::matmul(x[0], x[1]), throwing::matmul(x[0], x[0]))},
        Case{"linear",
             DW_INPUTS(values({2, 2, 3}, 1), values({4, 3}, 2), values({4}, 3)),
             DW_RUN(throwing::linear(x[0], x[1], &x[2]))},
        Case{"addmm",
             DW_INPUTS(values({2}, 1), values({3, 2}, 2), values({2, 2}, 3)),
             DW_RUN(throwing::addmm(x[0], x[1], x[2]))},
        Case{"einsum",
             DW_INPUTS(values({2, 3}, 1), values({3, 4}, 2), values({4, 2}, 3)),
             DW_RUN(throwing::einsum("ij,jk->ik", {x[0], x[1]}),
                    throwing::einsum("ij,jk,ki->", {x[0], x[1], x[2]}),
                    throwing::einsum("ij->ji", {x[0]}),
                    throwing::einsum("ij,jk->kij", {x[0], x[1]}))},
        Case{"sum", DW_INPUTS(strided({2, 3, 2}, 1)),
             DW_RUN(throwing::sum(x[0]), throwing::sum(x[0], Ints({0, -1})),
                    throwing::sum(x[0], Ints({1}), true))},
        Case{"mean_and_var", DW_INPUTS(values({2, 3}, 1)),
             DW_RUN(throwing::mean(x[0], Ints({1})), throwing::mean(x[0]),
                    throwing::var(x[0], Ints({0}), true))},
        Case{"amax", DW_INPUTS(values({3, 4}, 1)),
             DW_RUN(throwing::amax(x[0]), throwing::amax(x[0], Ints({1})))},
        Case{"logsumexp", DW_INPUTS(values({3, 4}, 1)),
             DW_RUN(throwing::logsumexp(x[0], Ints({1})),
                    throwing::logsumexp(x[0]))},
        Case{"gather", DW_INPUTS(values({3, 2}, 1)),
             DW_RUN(throwing::gather(x[0], 0, indices({2, 0, 0, 1}, {2, 2})))},
        Case{
            "scatter_add", DW_INPUTS(values({3, 2}, 1), values({2, 2}, 2)),
            DW_RUN(throwing::scatter_add(x[0], 0, indices({2, 0, 2, 1}, {2, 2}),
                                         x[1]))},
        Case{"index_add", DW_INPUTS(values({3, 2}, 1), values({4, 2}, 2)),
             DW_RUN(throwing::index_add(x[0], 0, indices({0, 2, 2, 1}, {4}),
                                        x[1]))},
        Case{"embedding", DW_INPUTS(values({4, 3}, 1)),
             DW_RUN(throwing::embedding(x[0], indices({1, 3, 1, 0}, {2, 2})))},
        Case{"nll_loss", DW_INPUTS(values({3, 4}, 1)),
             DW_RUN(throwing::nll_loss(x[0], indices({1, -100, 3}, {3})))},
        Case{"cross_entropy", DW_INPUTS(values({3, 4}, 1)),
             DW_RUN(throwing::cross_entropy(x[0], indices({1, 0, 3}, {3})))}),
    ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(
    Fused, Gradients,
    ::testing::Values(
        Case{"softmax", DW_INPUTS(values({2, 3, 2}, 1)),
             DW_RUN(throwing::softmax(x[0], 1), throwing::softmax(x[0]))},
        Case{"log_softmax", DW_INPUTS(strided({2, 3}, 1)),
             DW_RUN(throwing::log_softmax(x[0], 0),
                    throwing::log_softmax(x[0]))},
        Case{"layer_norm",
             DW_INPUTS(values({2, 2, 4}, 1), values({4}, 2), values({4}, 3)),
             DW_RUN(throwing::layer_norm(x[0], &x[1], &x[2]),
                    throwing::layer_norm(x[0]))},
        Case{"rms_norm", DW_INPUTS(values({2, 4}, 1), values({4}, 2)),
             DW_RUN(throwing::rms_norm(x[0], &x[1]), throwing::rms_norm(x[0]))},
        Case{"attention",
             DW_INPUTS(values({2, 3, 2}, 1), values({2, 4, 2}, 2),
                       values({2, 4, 3}, 3)),
             DW_RUN(throwing::attention(x[0], x[1], x[2]))},
        Case{"attention_causal",
             DW_INPUTS(values({1, 3, 2}, 1), values({1, 3, 2}, 2),
                       values({1, 3, 2}, 3)),
             DW_RUN(throwing::attention(x[0], x[1], x[2], nullptr, true, 0.5))},
        Case{"attention_masked",
             DW_INPUTS(values({2, 2}, 1), values({3, 2}, 2), values({3, 2}, 3)),
             [](TensorList x) {
               const Tensor mask =
                   throwing::lt(indices({0, 1, 1, 1, 1, 0}, {2, 3}), Scalar(1));
               return std::vector<Tensor>{
                   throwing::attention(x[0], x[1], x[2], &mask)};
             }},
        Case{"dropout", DW_INPUTS(values({20}, 1)),
             DW_RUN(throwing::dropout(x[0], 0.3, true,
                                      Generator{.seed = 3, .call = 9}),
                    throwing::dropout(x[0], 0.3, false))}),
    ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(
    InPlace, Gradients,
    ::testing::Values(
        Case{"add_", DW_INPUTS(values({2, 3}, 1), values({3}, 2)),
             [](TensorList x) {
               const Tensor y = x[0] * 2.0;
               throwing::add_(y, x[1], 3.0);
               return std::vector<Tensor>{y * y};
             }},
        Case{"mul_", DW_INPUTS(values({2, 3}, 1), values({3}, 2)),
             [](TensorList x) {
               const Tensor y = x[0] * 2.0;
               throwing::mul_(y, x[1]);
               throwing::mul_(y, x[1]);
               return std::vector<Tensor>{y};
             }},
        Case{"copy_and_fill_", DW_INPUTS(values({2, 3}, 1), values({3}, 2)),
             [](TensorList x) {
               const Tensor y = x[0] * 2.0, z = x[0] * 3.0;
               throwing::copy_(y, x[1]);
               throwing::fill_(z, 1.5);
               return std::vector<Tensor>{y * x[0], z * x[0]};
             }},
        Case{"write_to_a_view", DW_INPUTS(values({3, 2}, 1), values({2}, 2)),
             [](TensorList x) {
               const Tensor y = x[0] * 2.0;
               const Tensor row = throwing::select(y, 0, 1);
               throwing::mul_(row, x[1]);
               throwing::add_(row, x[1]);
               return std::vector<Tensor>{y * y, row};
             }},
        Case{"views_follow_the_base",
             DW_INPUTS(values({4, 2}, 1), values({2}, 2)),
             [](TensorList x) {
               const Tensor y = x[0] * 2.0;
               const std::vector<Tensor> parts = throwing::split(y, {1, 3});
               const Tensor turned = throwing::transpose(y);
               throwing::mul_(throwing::select(parts[1], 0, 0), x[1]);
               throwing::mul_(y, x[1]);
               return std::vector<Tensor>{parts[1] * parts[1], turned};
             }},
        Case{"views_of_a_constant", DW_INPUTS(values({2}, 1)),
             [](TensorList x) {
               const Tensor y = throwing::zeros({3, 2}, DType::kF64);
               const Tensor all = throwing::view(y, {6});
               throwing::copy_(throwing::select(y, 0, 2), x[0] * x[0]);
               return std::vector<Tensor>{y * y, all};
             }}),
    ::testing::PrintToStringParamName());

}  // namespace
}  // namespace distwrap::autograd
