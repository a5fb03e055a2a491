// Arguments that operators refuse: the reason, and what the text names.
#include "cpu/kernels.h"
#include "samples.h"

#include <limits>

namespace distwrap::cpu {
namespace {

constexpr Reason kArgument = Reason::kArgument;
constexpr Reason kType = Reason::kDtypeUnsupported;

TEST(Refuses, ElementTypes) {
  const Tensor f = sample({2, 3}), i = sample({2, 3}, DType::kI64);
  const Tensor b = sample({2, 3}, DType::kBool);
  expect_refused(add(f, i, 1).status(), Reason::kDtypeUnsupported,
                 "converted silently");
  expect_refused(add(f, i, 1).status(), kType, "dw::to");
  expect_refused(div(i, i).status(), kType, "f16, bf16, f32 or f64");
  expect_refused(exp(i).status(), kType, "dw::exp");
  expect_refused(neg(b).status(), kType, "integers and floats");
  expect_refused(sub(b, b, 1).status(), kType, "bool");
  expect_refused(softmax(i, -1).status(), kType, "i64");
  expect_refused(where(f, f, f).status(), kType, "condition");
  expect_refused(mm(b, b).status(), kType, "bool");
  expect_refused(rand(Dims{2}, DType::kI32, kCpu, {}).status(), kType, "i32");
  expect_refused(embedding(f, f).status(), kType, "i64 or i32");
  expect_refused(add(i, i, 0.5).status(), kArgument, "alpha");
  expect_refused(arange(0, 1, 1, DType::kBool, kCpu).status(), kArgument,
                 "bool");
}

TEST(Refuses, Undefined) {
  const Tensor f = sample({2, 3});
  expect_refused(neg(Tensor()).status(), kArgument, "undefined");
  expect_refused(add(Tensor(), f, 1).status(), kArgument, "undefined");
  expect_refused(add(f, Tensor(), 1).status(), kArgument, "'other'");
  expect_refused(sum(Tensor(), {}, false).status(), kArgument, "undefined");
  expect_refused(mm(f, Tensor()).status(), kArgument, "undefined");
  expect_refused(copy_(f, Tensor()), kArgument, "undefined");
}

TEST(Refuses, Shapes) {
  const Tensor f = sample({2, 3});
  expect_refused(add(f, sample({2}), 1).status(), kArgument, "broadcast");
  expect_refused(mul(f, sample({4, 3})).status(), kArgument, "[4, 3]");
  expect_refused(add_(sample({3}), f, 1), kArgument, "broadcast");
  expect_refused(copy_(sample({3}), f), kArgument, "[2, 3]");
  expect_refused(mm(f, f).status(), kArgument, "inner extents");
  expect_refused(mm(f, sample({3})).status(), kArgument, "2 dimensions");
  expect_refused(bmm(sample({2, 2, 2}), sample({3, 2, 2})).status(), kArgument,
                 "batches");
  expect_refused(sum(f, Ints({2}), false).status(), kArgument, "-2 to 1");
  expect_refused(sum(f, Ints({0, -2}), false).status(), kArgument, "twice");
  expect_refused(amax(sample({2, 0}), Ints({1}), false).status(), kArgument,
                 "no maximum");
  expect_refused(softmax(f, 2).status(), kArgument, "dimension 2");
  const Tensor w = sample({2});
  expect_refused(layer_norm(f, &w, nullptr, 1e-5).status(), kArgument,
                 "'weight'");
  expect_refused(layer_norm(sample({}), nullptr, nullptr, 1e-5).status(),
                 kArgument, "last dimension");
  expect_refused(cat({}, 0).status(), kArgument, "empty");
  expect_refused(cat({f, sample({2, 4})}, 0).status(), kArgument, "tensors[1]");
  expect_refused(pad(f, Ints({-2, -2}), 0).status(), kArgument, "amounts");
  expect_refused(pad(f, Ints({1}), 0).status(), kArgument, "two numbers");
  expect_refused(slice_scatter(f, f, 0, 0, 1, 1).status(), kArgument, "[1, 3]");
  expect_refused(slice_scatter(f, f, 0, 0, 1, 0).status(), kArgument, "step");
  expect_refused(dropout(f, 1.5, true, {}).status(), kArgument, "probability");
  expect_refused(empty(Dims{-1}, DType::kF32, kCpu).status(), kArgument,
                 "sizes");
  expect_refused(
      empty(Dims{int64_t{1} << 40, int64_t{1} << 40}, DType::kF32, kCpu)
          .status(),
      kArgument, "sizes");
  expect_refused(arange(0, 5, -1, DType::kI64, kCpu).status(), kArgument,
                 "towards");
  expect_refused(arange(0, 5, 0, DType::kI64, kCpu).status(), kArgument,
                 "towards");
  expect_refused(
      arange(std::numeric_limits<int64_t>::min(),
             std::numeric_limits<int64_t>::max(), 1, DType::kI64, kCpu)
          .status(),
      kArgument, "too many");
  expect_refused(
      arange(0.0, std::numeric_limits<double>::infinity(), 1, DType::kF32, kCpu)
          .status(),
      kArgument, "finite");
}

TEST(Refuses, IndicesBeforeAnythingIsWritten) {
  const Tensor f = sample({2, 3});
  const Tensor bad = tensor_of({2, 2}, {0, 1, 2, 7}, DType::kI64);
  expect_refused(gather(f, 1, bad).status(), kArgument, "value 7");
  expect_refused(gather(f, 1, bad).status(), kArgument, "[1, 1]");
  expect_refused(gather(f, 1, bad).status(), kArgument, "0 to 2");
  expect_refused(scatter_add(f, 1, bad, sample({2, 2})).status(), kArgument,
                 "value 7");
  expect_refused(embedding(f, tensor_of({1}, {-1}, DType::kI32)).status(),
                 kArgument, "value -1");
  expect_refused(
      index_add(f, 0, tensor_of({1}, {2}, DType::kI64), sample({1, 3}))
          .status(),
      kArgument, "0 to 1");
  expect_refused(
      nll_loss(f, tensor_of({2}, {0, 3}, DType::kI64), -100).status(),
      kArgument, "position [1]");
  expect_refused(
      gather(f, 0, tensor_of({1, 4}, {0, 0, 0, 0}, DType::kI64)).status(),
      kArgument, "larger");
}

TEST(Refuses, WritesToRepeatedElements) {
  const Tensor x = expanded(sample({1, 3}), {2, 3});
  constexpr Reason kView = Reason::kViewWrite;
  expect_refused(fill_(x, 1), kView, "two indices");
  expect_refused(add_(x, sample({3}), 1), kView, "dw::add_");
  expect_refused(mul_(x, sample({3})), kView, "clone");
  expect_refused(copy_(x, sample({3})), kView, "strides [0, 1]");
  const Tensor f = sample({2, 3});
  expect_refused(adamw_(f, f, x, f, 1, 0, 0, 0, 0, 0), kView, "dw::adamw_");
  expect_refused(adamw_(f, f, f, f, 0, 0, 0, 0, 0, 0), kArgument, "step");
}

TEST(Refuses, Attention) {
  const Tensor q = sample({2, 3, 4});
  expect_refused(
      attention_forward(q, sample({2, 5, 3}), q, nullptr, false, {}).status(),
      kArgument, "(..., S, D)");
  expect_refused(
      attention_forward(q, sample({1, 3, 4}), q, nullptr, false, {}).status(),
      kArgument, "leading");
  const Tensor mask = sample({4, 3}, DType::kBool);
  expect_refused(attention_forward(q, q, q, &mask, false, {}).status(),
                 kArgument, "broadcast");
  const Tensor wide = sample({3, 2, 3, 3}, DType::kBool);
  expect_refused(attention_forward(q, q, q, &wide, false, {}).status(),
                 kArgument, "'mask'");
}

}  // namespace
}  // namespace distwrap::cpu
