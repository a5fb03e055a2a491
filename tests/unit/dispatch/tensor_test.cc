// Tensors: handles, storage, views, other libraries' memory, and gradients that
// PyTorch has recorded.
#include "distwrap/dlpack.h"
#include "distwrap/throwing.h"

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace distwrap {
namespace {

using namespace throwing;  // NOLINT(google-build-using-namespace)

TEST(Tensors, AreHandlesOfOneMemory) {
  const Tensor x = throwing::zeros({2, 3});
  const Tensor same = x;
  EXPECT_EQ(x.use_count(), 2);
  throwing::fill_(same, 4);
  EXPECT_EQ(x.data<float>()[5], 4);
  EXPECT_EQ(x.version(), 1U);
  WeakTensor weak(x);
  EXPECT_TRUE(weak.lock().is_same(x));
  {
    const Tensor gone = throwing::zeros({1});
    weak = WeakTensor(gone);
    EXPECT_NE(gone.id(), x.id());
  }
  EXPECT_FALSE(weak.lock().defined());
}

TEST(Tensors, OfAViewShareItsMemoryAndReleaseItOnce) {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    const int64_t sizes[] = {3, 2}, strides[] = {1, 3};
    const Tensor x = *Tensor::of_view(TensorView(values.data(), sizes, strides),
                                      [&] { ++released; });
    EXPECT_FALSE(x.is_contiguous());
    const Tensor row = throwing::select(x, 0, 1);
    EXPECT_EQ(row.storage_offset(), 1);
    throwing::fill_(row, 9);
    EXPECT_EQ(values[1], 9);
    EXPECT_EQ(values[4], 9);
    const TensorView back = row.view();
    EXPECT_EQ(back.data(), values.data() + 1);
    EXPECT_EQ(back.strides()[0], 3);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(Tensors, GoToDlpackAndBackWithoutACopy) {
  const Tensor x = throwing::ones({2, 3}, DType::kI32);
  auto exported = export_dlpack(x.view(), std::make_shared<Tensor>(x));
  ASSERT_TRUE(exported.ok());
  EXPECT_EQ(x.use_count(), 2);
  const Tensor y = *Tensor::of_dlpack(*import_dlpack(*exported));
  EXPECT_EQ(y.data(), x.data());
  EXPECT_EQ(y.dtype(), DType::kI32);
  EXPECT_EQ(y.sizes(), x.sizes());
}

TEST(Tensors, RefuseWhatDoesNotLieInTheStorage) {
  const Storage storage = *Storage::allocate(24, kCpu);
  EXPECT_TRUE(Tensor::of_storage(storage, DType::kF32, {2, 3}, {3, 1}, 0).ok());
  EXPECT_FALSE(
      Tensor::of_storage(storage, DType::kF32, {2, 3}, {3, 1}, 1).ok());
  EXPECT_FALSE(
      Tensor::of_storage(storage, DType::kF32, {2, 3}, {-3, 1}, 0).ok());
  EXPECT_TRUE(
      Tensor::of_storage(storage, DType::kF32, {2, 3}, {-3, 1}, 3).ok());
  EXPECT_FALSE(Tensor::of_storage(storage, DType::kF32,
                                  {int64_t{1} << 40, int64_t{1} << 40}, {0, 0})
                   .ok());
  EXPECT_FALSE(Tensor::empty({-1}).ok());
  EXPECT_FALSE(Tensor::empty({int64_t{1} << 62, 4}).ok());
  // Floats of 8 bits are sent; no operator computes with them.
  EXPECT_FALSE(Tensor::empty({2}, DType::kF8E5M2).ok());
  EXPECT_EQ(error_reason(Storage::allocate(8, {.type = 99}).status()),
            Reason::kNoKernel);
}

struct BadView {
  const char* what;
  absl::StatusOr<Tensor> result;
};

TEST(Views, RefuseWhatIsNoView) {
  const Tensor x = throwing::ones({2, 3});
  const Tensor turned = throwing::transpose(x);
  for (const BadView& bad : std::vector<BadView>{
           {"another number", ops::view(x, {4})},
           {"reshape() copies", ops::view(turned, {6})},
           {"order of the dimensions", ops::permute(x, {0, 0})},
           {"out of range", ops::select(x, 0, 2)},
           {"dim", ops::select(x, 2, 0)},
           {"step", ops::slice(x, 0, 0, 2, 0)},
           {"extents of 1", ops::expand(x, {4, 3})},
           {"within the dimension", ops::narrow(x, 1, 2, 2)}}) {
    ASSERT_FALSE(bad.result.ok()) << bad.what;
    EXPECT_EQ(error_reason(bad.result.status()), Reason::kArgument);
    EXPECT_TRUE(absl::StrContains(bad.result.status().message(), bad.what))
        << bad.result.status();
  }
  EXPECT_FALSE(ops::split(x, {1, 1}, 1).ok());
  EXPECT_EQ(throwing::reshape(turned, {6}).data<float>()[1], 1);
}

TEST(Views, OfEmptyAndZeroDimensionalTensors) {
  const Tensor empty = throwing::zeros({0, 3}), one = throwing::ones({});
  EXPECT_EQ(throwing::view(empty, {3, 0}).count(), 0);
  EXPECT_EQ(throwing::permute(one, {}).dims(), 0);
  EXPECT_EQ(throwing::unsqueeze(one, 0).dims(), 1);
  EXPECT_EQ(throwing::expand(one, {2, 0}).count(), 0);
  EXPECT_EQ(throwing::slice(empty, 0, 5, 9).count(), 0);
  EXPECT_EQ(throwing::squeeze(one, 0).dims(), 0);
}

TEST(Scalars, OfEveryType) {
  for (const DType dtype :
       {DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kU32,
        DType::kI32, DType::kU64, DType::kI64, DType::kF16, DType::kBF16,
        DType::kF32, DType::kF64, DType::kBool}) {
    const Tensor x = throwing::full({}, 1, dtype);
    EXPECT_EQ(unwrap(x.item()).to<double>(), 1) << dtype_name(dtype);
  }
  EXPECT_FALSE(throwing::ones({2}).item().ok());
}

TEST(Random, DependsOnSeedCallAndIndexAlone) {
  manual_seed(7);
  const Tensor first = throwing::rand({8});
  const Tensor second = throwing::rand({8});
  manual_seed(7);
  const Tensor again = throwing::rand({2, 4});
  EXPECT_EQ(std::memcmp(first.data(), again.data(), 32), 0);
  EXPECT_NE(std::memcmp(first.data(), second.data(), 32), 0);
}

}  // namespace
}  // namespace distwrap
