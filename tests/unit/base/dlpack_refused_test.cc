// Tensors that are refused, each with its reason.
#include "unit/base/dlpack_fixture.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <string>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

class DlpackRefused : public DlpackTest {
 protected:
  void refused(const char* why, uint64_t flags = 0) {
    const absl::StatusOr<TensorView> view = import(flags);
    ASSERT_FALSE(view.ok());
    EXPECT_EQ(error_reason(view.status()), Reason::kInvalidArgument);
    EXPECT_THAT(std::string(view.status().message()), HasSubstr(why));
  }
};

TEST_F(DlpackRefused, Vectors) {
  for (const uint16_t lanes : {uint16_t{0}, uint16_t{4}}) {
    tensor_.dtype.lanes = lanes;
    refused("element type is unknown");
  }
}

TEST_F(DlpackRefused, Complex) {
  tensor_.dtype = {5, 64, 1};
  refused("code 5, 64 bits, 1 lanes");
}

TEST_F(DlpackRefused, SmallFloats) {
  for (uint8_t code = 7; code <= 17; ++code) {
    if (code == 10 || code == 12) continue;  // e4m3fn, e5m2
    tensor_.dtype = {code, 8, 1};
    refused("expected u8 i8");
  }
}

TEST_F(DlpackRefused, SubByteIntegers) {
  tensor_.dtype = {0, 4, 1};
  refused("code 0, 4 bits");
}

TEST_F(DlpackRefused, BoolsOfOneBit) {
  tensor_.dtype = {6, 1, 1};
  refused("code 6, 1 bits");
}

TEST_F(DlpackRefused, OpaqueHandles) {
  tensor_.dtype = {3, 64, 1};
  refused("code 3");
}

TEST_F(DlpackRefused, DevicesThatAreNone) {
  for (const int type : {0, -1, 255, 1 << 30}) {
    tensor_.device.device_type = static_cast<UserDeviceType>(type);
    refused("device type is unknown");
  }
}

TEST_F(DlpackRefused, NegativeDimensions) {
  tensor_.ndim = -1;
  refused("number of dimensions is impossible");
}

TEST_F(DlpackRefused, TooManyDimensions) {
  shape(std::vector<int64_t>(65, 1));
  refused("expected 0 to 64, got 65");
}

TEST_F(DlpackRefused, DimensionsWithoutShape) {
  tensor_.shape = nullptr;
  refused("dimensions but no shape");
}

TEST_F(DlpackRefused, NegativeExtents) {
  shape({2, -3});
  refused("got f32 [2, -3]");
  shape({0, -3});
  refused("got f32 [0, -3]");
}

TEST_F(DlpackRefused, MoreElementsThanCountable) {
  shape({kMost, 2});
  refused("shape is impossible");
}

TEST_F(DlpackRefused, MoreBytesThanMemory) {
  shape({kMost / 2});
  refused("address space");
}

TEST_F(DlpackRefused, OffsetBeyondMemory) {
  tensor_.byte_offset = ~uint64_t{0} - 3;
  refused("address space");
}

TEST_F(DlpackRefused, ElementsWithoutMemory) {
  tensor_.data = nullptr;
  refused("elements but no memory");
  tensor_.byte_offset = 64;
  refused("elements but no memory");
}

TEST_F(DlpackRefused, MisalignedMemory) {
  tensor_.data = reinterpret_cast<char*>(data_) + 2;
  refused("not aligned; expected an address that is a multiple of 4");
}

TEST_F(DlpackRefused, MisalignedOffset) {
  tensor_.byte_offset = 3;
  refused("not aligned");
}

TEST_F(DlpackRefused, UnknownFlags) { refused("unknown flags", 1u << 3); }

TEST_F(DlpackRefused, ForeignVersionsAreGivenBackUnread) {
  static int deleted;
  deleted = 0;
  for (const uint32_t major : {0u, 2u}) {
    UserVersioned managed{};
    managed.version = {major, 0};
    // Nothing behind the version may be read.
    managed.flags = ~uint64_t{0};
    managed.dl_tensor.ndim = 1;
    managed.deleter = [](UserVersioned*) { ++deleted; };
    const absl::Status status = import_dlpack(&managed).status();
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 1.x"));
  }
  EXPECT_EQ(deleted, 2);
}

TEST_F(DlpackRefused, BadTensorsAreGivenBack) {
  static int deleted;
  deleted = 0;
  UserManaged managed{};
  managed.dl_tensor = tensor_;
  managed.dl_tensor.dtype.lanes = 2;
  managed.deleter = [](UserManaged*) { ++deleted; };
  EXPECT_FALSE(import_dlpack(&managed).ok());
  EXPECT_EQ(deleted, 1);
}

TEST_F(DlpackRefused, Null) {
  const absl::Status status = import_dlpack<UserVersioned>(nullptr).status();
  EXPECT_EQ(error_reason(status), Reason::kInvalidArgument);
}

// Random tensors give a view that keeps the rules, or a refusal.
TEST_F(DlpackRefused, RandomTensors) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto any_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  const auto any_extent = [&] {
    return random() % 16 != 0 ? static_cast<int64_t>(random() % 4)
                              : any_of({-1, kMost, int64_t{1} << 32,
                                        static_cast<int64_t>(random())});
  };
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    shape(std::vector<int64_t>(random() % 5));
    for (int64_t& extent : shape_) extent = any_extent();
    if (random() % 2 == 0) {
      strides(std::vector<int64_t>(shape_.size()));
      for (int64_t& stride : strides_) stride = any_extent();
    }
    if (random() % 20 == 0)
      tensor_.ndim = static_cast<int32_t>(any_of({-1, 99}));
    if (random() % 20 == 0) tensor_.shape = nullptr;
    tensor_.data = random() % 8 == 0 ? nullptr : data_;
    tensor_.byte_offset = random() % 4 == 0 ? random() >> random() % 64 : 0;
    tensor_.dtype = {static_cast<uint8_t>(random() % 8),
                     static_cast<uint8_t>(8 << random() % 4),
                     static_cast<uint16_t>(random() % 16 == 0 ? 2 : 1)};
    tensor_.device.device_type = static_cast<UserDeviceType>(
        random() % 16 == 0 ? any_of({0, -5, 999}) : any_of({1, 2, 3}));
    const absl::StatusOr<TensorView> view = import(random() % 9);
    if (!view.ok()) {
      EXPECT_EQ(error_reason(view.status()), Reason::kInvalidArgument);
      continue;
    }
    ++accepted;
    EXPECT_TRUE(view->possible());
    EXPECT_GE(view->count(), 0);
    EXPECT_EQ(view->dims(), tensor_.ndim);
    EXPECT_EQ(view->strides().empty(), view->contiguous());
    EXPECT_FALSE(view->text().empty());
    if (view->count() > 0) {
      const auto address = reinterpret_cast<uintptr_t>(view->data());
      EXPECT_EQ(address, reinterpret_cast<uintptr_t>(tensor_.data) +
                             tensor_.byte_offset);
      EXPECT_EQ(address % static_cast<uintptr_t>(dtype_size(view->dtype())),
                0u);
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace distwrap
