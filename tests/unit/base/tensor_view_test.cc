#include "distwrap/tensor_view.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace distwrap {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

class TensorViewTest : public ::testing::Test {
 protected:
  using List = std::vector<int64_t>;

  TensorView view(const List& shape) { return {data_, shape}; }
  TensorView view(const List& shape, const List& strides) {
    return {data_, shape, strides};
  }
  bool contiguous(const List& shape, const List& strides) {
    return view(shape, strides).contiguous();
  }

  float data_[64] = {};
};

// Views are copied in every call, so their size matters.
static_assert(sizeof(TensorView) == 32);
static_assert(std::is_trivially_copyable_v<TensorView>);

TEST_F(TensorViewTest, FlatViews) {
  const TensorView v(data_, 6);
  EXPECT_EQ(v.data(), data_);
  EXPECT_EQ(v.count(), 6);
  EXPECT_EQ(v.dtype(), DType::kF32);
  EXPECT_EQ(v.device(), kCpu);
  EXPECT_EQ(v.dims(), 1);
  EXPECT_EQ(v.rows(), 6);
  EXPECT_EQ(v.extent(0), 6);
  EXPECT_EQ(v.extent(1), 1);
  EXPECT_EQ(v.extent(-1), 1);
  EXPECT_TRUE(v.shape().empty());
  EXPECT_TRUE(v.strides().empty());
  EXPECT_TRUE(v.contiguous());
  EXPECT_FALSE(v.read_only());
  EXPECT_EQ(v.text(), "f32 x 6");
  const TensorView none;
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.rows(), 0);
  EXPECT_TRUE(none.contiguous());
}

TEST_F(TensorViewTest, ShapesWithoutStrides) {
  const List shape{2, 3, 4};
  const TensorView v = view(shape);
  EXPECT_EQ(v.count(), 24);
  EXPECT_EQ(v.dims(), 3);
  EXPECT_EQ(v.rows(), 2);
  EXPECT_EQ(v.extent(2), 4);
  EXPECT_EQ(v.extent(3), 1);
  EXPECT_EQ(v.shape(), absl::MakeConstSpan(shape));
  EXPECT_TRUE(v.contiguous());
  EXPECT_EQ(v.text(), "f32 [2, 3, 4]");
}

TEST_F(TensorViewTest, ZeroDimensionsAreOneElement) {
  const TensorView v = view({});
  EXPECT_EQ(v.count(), 1);
  EXPECT_EQ(v.dims(), 0);
  EXPECT_EQ(v.rows(), 1);
  EXPECT_TRUE(v.contiguous());
  EXPECT_EQ(v.text(), "f32 []");
}

TEST_F(TensorViewTest, StridesThatAreRowMajor) {
  EXPECT_TRUE(contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(contiguous({5}, {1}));
  // The strides of extents that are 1 do not matter.
  EXPECT_TRUE(contiguous({1, 3}, {77, 1}));
  EXPECT_TRUE(contiguous({3, 1}, {1, -5}));
  EXPECT_TRUE(contiguous({1}, {0}));
  // Strides of views without elements do not matter, either.
  EXPECT_TRUE(contiguous({0, 3}, {9, 9}));
  EXPECT_TRUE(contiguous({3, 0}, {-1, 7}));
}

TEST_F(TensorViewTest, StridesThatAreNot) {
  EXPECT_FALSE(contiguous({2, 3}, {1, 2}));  // transposed
  EXPECT_FALSE(contiguous({2, 3}, {4, 1}));  // gaps
  EXPECT_FALSE(contiguous({5}, {2}));        // every second
  EXPECT_FALSE(contiguous({5}, {-1}));       // backwards
  EXPECT_FALSE(contiguous({5, 2}, {0, 1}));  // broadcast
  EXPECT_FALSE(contiguous({2, 3}, {3, kMost}));
  const List shape{2, 3}, strides{1, 2};
  const TensorView v = view(shape, strides);
  EXPECT_TRUE(v.possible());
  EXPECT_EQ(v.count(), 6);
  EXPECT_EQ(v.rows(), 2);
  EXPECT_EQ(v.strides(), absl::MakeConstSpan(strides));
  EXPECT_EQ(v.text(), "f32 [2, 3] strides [1, 2]");
}

TEST_F(TensorViewTest, ImpossibleShapes) {
  EXPECT_FALSE(view({2, -1}).possible());
  EXPECT_FALSE(view({-1, 0}).possible());
  EXPECT_FALSE(view({int64_t{1} << 32, int64_t{1} << 31}).possible());
  EXPECT_FALSE(view({2, 3}, {1}).possible());
  EXPECT_FALSE(view({}, {1}).possible());
  EXPECT_FALSE(view(List(65, 1)).possible());
  EXPECT_FALSE(view(List(300, 1)).possible());
  EXPECT_EQ(view({2, -1}).count(), -1);
  EXPECT_EQ(view({2, 3}, {1}).count(), -1);
  EXPECT_FALSE(view({2, -1}).contiguous());

  EXPECT_TRUE(view({kMost}).possible());
  EXPECT_TRUE(view(List(64, 1)).possible());
  // A view without elements cannot overflow.
  EXPECT_EQ(view({kMost, kMost, 0}).count(), 0);
  EXPECT_TRUE(view({kMost, kMost, 0}).possible());
}

TEST_F(TensorViewTest, PartsOfAView) {
  const List shape{2, 3}, strides{1, 2};
  const TensorView part = view(shape).flat(2, 3);
  EXPECT_EQ(part.data(), data_ + 2);
  EXPECT_EQ(part.count(), 3);
  EXPECT_EQ(part.dims(), 1);
  EXPECT_TRUE(part.contiguous());
  EXPECT_EQ(view(shape).flat(6, 0).count(), 0);
  EXPECT_EQ(TensorView().flat(0, 0).count(), 0);
  for (const TensorView& outside :
       {view(shape).flat(4, 3), view(shape).flat(-1, 2),
        view(shape).flat(0, -1), view(shape).flat(kMost, 1),
        view(shape).flat(1, kMost)}) {
    EXPECT_FALSE(outside.possible());
    EXPECT_EQ(outside.count(), -1);
  }
  EXPECT_FALSE(view(shape, strides).flat(0, 1).contiguous());
}

TEST_F(TensorViewTest, ConstMemoryIsReadOnly) {
  const std::vector<float> input(4);
  EXPECT_TRUE(TensorView(input).read_only());
  EXPECT_TRUE(TensorView(input.data(), 4).read_only());
  const List shape{2, 2};
  EXPECT_TRUE(TensorView(input.data(), shape).read_only());
  EXPECT_EQ(TensorView(input).dtype(), DType::kF32);
  EXPECT_TRUE(TensorView(input).contiguous());
  EXPECT_TRUE(view(shape).as_read_only().read_only());
  EXPECT_TRUE(view(shape).as_read_only().flat(0, 2).read_only());
  EXPECT_FALSE(view(shape).read_only());
}

TEST_F(TensorViewTest, StrangeDevicesStayStrange) {
  EXPECT_EQ(TensorView(data_, 1, DType::kF32, Device{2, 7}).device(),
            (Device{2, 7}));
  for (const int type : {-1, 255, 257, 1 << 20})
    EXPECT_EQ(TensorView(data_, 1, DType::kF32, Device{type, 0}).device().type,
              255);
}

}  // namespace
}  // namespace distwrap
