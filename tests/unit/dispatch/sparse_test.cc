// Sparse tensors as a library of its own would add them: coordinates and values
// behind a tensor's extension, and kernels for add, which dense tensors share.
#include "distwrap/autograd.h"
#include "distwrap/registration.h"
#include "distwrap/throwing.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

namespace distwrap::dispatch {
namespace {

// The elements of a tensor of one dimension that are not zero.
struct Coo {
  std::map<int64_t, float> elements;
};

const Coo& coo_of(const Tensor& tensor) {
  return *static_cast<const Coo*>(tensor.state()->extension.get());
}
bool is_sparse(const Tensor& tensor) { return tensor.keys().has(kSparse); }

Tensor make_sparse(int64_t size, Coo coo) {
  // The storage is empty: a dense kernel must not see it.
  Tensor tensor = *Tensor::of_storage(*Storage::allocate(size * 4, kMeta),
                                      DType::kF32, {size}, {1});
  tensor.state()->keys = KeySet(kSparse, kCpu);
  tensor.state()->extension = std::make_shared<Coo>(std::move(coo));
  return tensor;
}
Tensor dense(std::vector<float> values) {
  Tensor tensor = *Tensor::empty({static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data<float>());
  return tensor;
}
std::vector<float> values(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.count()};
}

// Sparse and sparse give a sparse tensor; with a dense one the sum is dense.
absl::StatusOr<Tensor> add_coo(const Tensor& a, const Tensor& b,
                               const Scalar& alpha) {
  const auto factor = alpha.to<float>();
  if (is_sparse(a) && is_sparse(b)) {
    Coo sum = coo_of(a);
    for (const auto& [at, value] : coo_of(b).elements) {
      sum.elements[at] += factor * value;
    }
    return make_sparse(a.size(0), std::move(sum));
  }
  const bool first = is_sparse(a);
  absl::StatusOr<Tensor> sum = ops::clone(first ? b : a);
  if (!sum.ok()) return sum;
  for (int64_t i = 0; first && i < sum->count(); ++i) {
    sum->data<float>()[i] *= factor;
  }
  for (const auto& [at, value] : coo_of(first ? a : b).elements) {
    sum->data<float>()[at] += first ? value : factor * value;
  }
  return sum;
}

TEST(Sparse, AddsToDenseInAnyOrderThroughTheOperatorOfDenseTensors) {
  const auto kept =
      implement("dw::add.Tensor", {kSparse, kCpu}, kernel<&add_coo>());
  ASSERT_TRUE(kept.ok()) << kept.status();
  const Tensor x = dense({1, 2, 3, 4});
  const Tensor y = make_sparse(4, {{{1, 10}, {3, 20}}});
  using Floats = std::vector<float>;
  EXPECT_EQ(values(throwing::add(x, x)), (Floats{2, 4, 6, 8})) << "dense";
  EXPECT_EQ(values(throwing::add(x, y)), (Floats{1, 12, 3, 24}));
  EXPECT_EQ(values(throwing::add(y, x)), (Floats{1, 12, 3, 24}));
  EXPECT_EQ(values(throwing::add(x, y, 2)), (Floats{1, 22, 3, 44}));
  EXPECT_EQ(values(throwing::add(y, x, 2)), (Floats{2, 14, 6, 28}));
  const Tensor both = throwing::add(y, y);
  ASSERT_TRUE(is_sparse(both));
  EXPECT_EQ(coo_of(both).elements,
            (std::map<int64_t, float>{{1, 20}, {3, 40}}));
  // An operator without a sparse kernel says so, and reads no memory.
  EXPECT_EQ(error_reason(ops::mul(x, y).status()), Reason::kNoKernel);
}

TEST(Sparse, GradientsPassThroughTheSameFormula) {
  const auto kept =
      implement("dw::add.Tensor", {kSparse, kCpu}, kernel<&add_coo>());
  const Tensor x = dense({1, 2, 3, 4});
  ASSERT_TRUE(x.set_requires_grad().ok());
  const Tensor y = make_sparse(4, {{{1, 10}}});
  const Tensor z = throwing::add(y, x, 3);
  ASSERT_TRUE(autograd::backward({throwing::sum(z)}).ok());
  EXPECT_EQ(values(x.grad()), (std::vector<float>{3, 3, 3, 3}));
}

}  // namespace
}  // namespace distwrap::dispatch
