#include "unit/base/dlpack_fixture.h"

#include <memory>
#include <string>

namespace distwrap {
namespace {

TEST_F(DlpackTest, Plain) {
  const absl::StatusOr<TensorView> view = import();
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->data(), data_);
  EXPECT_EQ(view->count(), 6);
  EXPECT_EQ(view->dtype(), DType::kF32);
  EXPECT_EQ(view->device(), kCpu);
  EXPECT_EQ(view->shape(), absl::MakeConstSpan(shape_));
  EXPECT_TRUE(view->contiguous());
  EXPECT_FALSE(view->read_only());
}

TEST_F(DlpackTest, RowMajorStrides) {
  strides({3, 1});
  EXPECT_TRUE(import()->contiguous());
}

TEST_F(DlpackTest, ByteOffset) {
  tensor_.byte_offset = 8;
  EXPECT_EQ(import()->data(), data_ + 2);
}

TEST_F(DlpackTest, ZeroDimensions) {
  shape({});
  tensor_.shape = nullptr;
  const absl::StatusOr<TensorView> view = import();
  EXPECT_EQ(view->count(), 1);
  EXPECT_EQ(view->dims(), 0);
  EXPECT_EQ(view->data(), data_);
}

TEST_F(DlpackTest, EmptyWithoutMemory) {
  shape({0, 3});
  tensor_.data = nullptr;
  tensor_.byte_offset = 12;
  const absl::StatusOr<TensorView> view = import();
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->count(), 0);
  EXPECT_TRUE(view->contiguous());
}

TEST_F(DlpackTest, EmptyWithAnyStrides) {
  shape({3, 0});
  strides({-7, 99});
  EXPECT_TRUE(import()->contiguous());
}

TEST_F(DlpackTest, StridesOfExtentsOfOne) {
  shape({1, 3});
  strides({1000, 1});
  EXPECT_TRUE(import()->contiguous());
}

// Views that are not contiguous are accepted, for packing; operations refuse
// them.
TEST_F(DlpackTest, Transposed) {
  strides({1, 2});
  const absl::StatusOr<TensorView> view = import();
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_FALSE(view->contiguous());
  EXPECT_EQ(view->text(), "f32 [2, 3] strides [1, 2]");
}

TEST_F(DlpackTest, WithGaps) {
  strides({8, 2});
  EXPECT_FALSE(import()->contiguous());
}

TEST_F(DlpackTest, Backwards) {
  strides({-3, -1});
  tensor_.byte_offset = 20;
  EXPECT_FALSE(import()->contiguous());
}

TEST_F(DlpackTest, Repeated) {
  strides({0, 1});
  EXPECT_FALSE(import()->contiguous());
}

TEST_F(DlpackTest, ReadOnly) {
  EXPECT_TRUE(import(dlpack::kReadOnly)->read_only());
}

TEST_F(DlpackTest, CopiedAndPadded) {
  EXPECT_TRUE(import(6).ok());
  EXPECT_FALSE(import(6)->read_only());
}

TEST_F(DlpackTest, EveryElementType) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  tensor_.dtype = {code, bits, 1};                                   \
  EXPECT_EQ(import()->dtype(), DType::enumerator);
#include "distwrap/abi/dtypes.def"
}

TEST_F(DlpackTest, Cuda) {
  tensor_.device = {kUserCuda, 3};
  EXPECT_EQ(import()->device(), (Device{2, 3}));
}

TEST_F(DlpackTest, PinnedMemoryIsHostMemory) {
  for (const int type : {3, 11}) {
    tensor_.device = {static_cast<UserDeviceType>(type), 0};
    EXPECT_EQ(import()->device(), kCpu);
  }
}

TEST_F(DlpackTest, ForeignDevice) {
  tensor_.device = {static_cast<UserDeviceType>(18), 1};
  EXPECT_EQ(import()->device(), (Device{18, 1}));
}

// Counts the calls of a producer's deleter.
template <class M>
M* produce(const UserTensor& tensor, int* deleted) {
  M* const made = new M{};
  made->dl_tensor = tensor;
  made->manager_ctx = deleted;
  made->deleter = [](M* self) {
    ++*static_cast<int*>(self->manager_ctx);
    delete self;
  };
  return made;
}

TEST_F(DlpackTest, AnUnversionedTensorIsGivenBack) {
  int deleted = 0;
  {
    absl::StatusOr<ImportedTensor> held =
        import_dlpack(produce<UserManaged>(tensor_, &deleted));
    ASSERT_TRUE(held.ok()) << held.status();
    const ImportedTensor moved = *std::move(held);
    EXPECT_EQ(moved.view().data(), data_);
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
}

TEST_F(DlpackTest, AVersionedTensorIsGivenBack) {
  int deleted = 0;
  for (const uint32_t minor : {0u, 1u, 7u}) {
    UserVersioned* const made = produce<UserVersioned>(tensor_, &deleted);
    made->version = {1, minor};
    made->flags = dlpack::kReadOnly;
    absl::StatusOr<ImportedTensor> held = import_dlpack(made);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_TRUE(held->view().read_only());
  }
  EXPECT_EQ(deleted, 3);
}

TEST_F(DlpackTest, WithoutADeleter) {
  UserManaged managed{};
  managed.dl_tensor = tensor_;
  EXPECT_TRUE(import_dlpack(&managed).ok());
}

// ---- export ----

TEST_F(DlpackTest, ExportsComeBackTheSame) {
  const auto owner = std::make_shared<int>(1);
  std::vector<int64_t> own{2, 3, 4};
  absl::StatusOr<UserVersioned*> exported = export_dlpack<UserVersioned>(
      TensorView(data_, own).as_read_only(), owner);
  ASSERT_TRUE(exported.ok()) << exported.status();
  own.assign(3, 0);  // borrowed during the call only
  EXPECT_EQ((*exported)->version.major, 1u);
  EXPECT_EQ((*exported)->dl_tensor.ndim, 3);
  ASSERT_NE((*exported)->dl_tensor.strides, nullptr) << "1.x wants them";
  EXPECT_EQ((*exported)->dl_tensor.strides[0], 12);
  EXPECT_EQ(owner.use_count(), 2);
  {
    const absl::StatusOr<ImportedTensor> held = import_dlpack(*exported);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(held->view().data(), data_);
    EXPECT_EQ(held->view().text(), "f32 [2, 3, 4]");
    EXPECT_TRUE(held->view().read_only());
    EXPECT_EQ(owner.use_count(), 2);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(DlpackTest, ExportsOfEveryKind) {
  strides({1, 2});
  for (const TensorView& view :
       {TensorView(data_, 6), *import(), TensorView(),
        TensorView(data_, absl::Span<const int64_t>()),
        TensorView(data_, 4, DType::kBF16, Device{2, 1})}) {
    const absl::StatusOr<dlpack::ManagedTensor*> exported =
        export_dlpack<dlpack::ManagedTensor>(view, nullptr);
    ASSERT_TRUE(exported.ok()) << exported.status();
    const absl::StatusOr<ImportedTensor> held = import_dlpack(*exported);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(held->view().count(), view.count());
    EXPECT_EQ(held->view().dims(), view.dims());
    EXPECT_EQ(held->view().dtype(), view.dtype());
    EXPECT_EQ(held->view().device(), view.device());
    EXPECT_EQ(held->view().strides(), view.strides());
  }
}

TEST_F(DlpackTest, ExportsThatAreRefused) {
  const TensorView bad[] = {TensorView(data_, -1),
                            TensorView(data_, 1, static_cast<DType>(99)),
                            TensorView(data_, 6).flat(5, 5)};
  for (const TensorView& view : bad)
    EXPECT_EQ(error_reason(export_dlpack(view, nullptr).status()),
              Reason::kInvalidArgument);
  EXPECT_EQ(error_reason(export_dlpack<UserManaged>(
                             TensorView(data_, 6).as_read_only(), nullptr)
                             .status()),
            Reason::kInvalidArgument)
      << "it could not say so";
}

}  // namespace
}  // namespace distwrap
