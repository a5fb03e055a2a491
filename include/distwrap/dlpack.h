// Exchange of tensors with other libraries by DLPack, without copies.
//
// The functions accept the structs of any dlpack.h by the names of their
// members, so this header includes none; `distwrap::dlpack` has structs of the
// same layout for programs without a dlpack.h. Supported are unversioned
// structs and versions 1.x.
//
// Threads: one thread at a time uses an ImportedTensor. Ownership:
// import_dlpack takes the managed tensor, also when it fails; an exported
// tensor keeps `owner` until its deleter is called.
//
//   absl::StatusOr<ImportedTensor> x = import_dlpack(managed);
//   if (x.ok()) distwrap::all_reduce(x->view());
#ifndef DISTWRAP_DLPACK_H_
#define DISTWRAP_DLPACK_H_

#include "distwrap/export.h"
#include "distwrap/tensor_view.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace distwrap {

namespace dlpack {

inline constexpr uint32_t kMajor = 1, kMinor = 1;
inline constexpr uint64_t kReadOnly = 1;

struct Version {
  uint32_t major, minor;
};
struct Place {
  int32_t device_type, device_id;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  Place device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; NULL: row-major
  uint64_t byte_offset;
};
struct ManagedTensor {
  Tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
};
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);
  uint64_t flags;
  Tensor dl_tensor;
};
static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, shape) == 24);
static_assert(sizeof(ManagedTensor) == 64);
static_assert(sizeof(ManagedTensorVersioned) == 80 &&
              offsetof(ManagedTensorVersioned, dl_tensor) == 32);

// A DLTensor, or a DLManagedTensor of either kind, of any dlpack.h.
template <class T>
concept TensorLike = requires(T t) {
  t.data;
  t.device.device_type;
  t.ndim;
  t.dtype.lanes;
  t.shape;
  t.strides;
  t.byte_offset;
};
template <class T>
concept ManagedLike = requires(T t) {
  t.dl_tensor;
  t.manager_ctx;
  t.deleter;
};
template <class T>
concept VersionedLike = ManagedLike<T> && requires(T t) {
  t.version.major;
  t.flags;
};

}  // namespace dlpack

namespace internal {
DISTWRAP_EXPORT absl::StatusOr<TensorView> view_of(const dlpack::Tensor& tensor,
                                                   uint64_t flags);
DISTWRAP_EXPORT absl::Status refuse_null_dlpack();
DISTWRAP_EXPORT absl::Status refuse_dlpack_version(uint32_t major,
                                                   uint32_t minor);
// The memory behind the pointers of an exported tensor.
struct Exported {
  std::vector<int64_t> shape, strides;
  std::shared_ptr<void> owner;
};
DISTWRAP_EXPORT absl::StatusOr<dlpack::Tensor> describe_export(
    const TensorView& view, bool has_flags, Exported* kept);
}  // namespace internal

// A view of a tensor whose memory, shape and strides stay the caller's. Pinned
// host memory becomes host memory; other device types are kept.
// kInvalidArgument for element types without a DType, vector elements (lanes),
// impossible shapes, elements without memory, and elements that are not aligned
// to their size. A view that is not contiguous is returned, too, but operations
// refuse it.
template <dlpack::TensorLike T>
absl::StatusOr<TensorView> view_of_dlpack(const T& tensor, uint64_t flags = 0) {
  return internal::view_of(
      {const_cast<void*>(static_cast<const void*>(tensor.data)),
       {static_cast<int32_t>(tensor.device.device_type),
        static_cast<int32_t>(tensor.device.device_id)},
       static_cast<int32_t>(tensor.ndim),
       {tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes},
       tensor.shape,
       tensor.strides,
       tensor.byte_offset},
      flags);
}

// Holds a managed tensor and calls its deleter at the end.
class ImportedTensor {
 public:
  ImportedTensor(ImportedTensor&&) noexcept = default;
  ImportedTensor& operator=(ImportedTensor&&) noexcept = default;

  // Valid as long as this object; read-only when the producer marked the tensor
  // as read-only.
  const TensorView& view() const { return view_; }

 private:
  template <dlpack::ManagedLike M>
  friend absl::StatusOr<ImportedTensor> import_dlpack(M* managed);
  using Holder = std::unique_ptr<void, void (*)(void*)>;

  ImportedTensor(Holder holder, TensorView view)
      : holder_(std::move(holder)), view_(view) {}

  Holder holder_;
  TensorView view_;
};

// Takes `managed`. kInvalidArgument for everything that view_of_dlpack refuses,
// for a major version other than 1, for unknown flags and for NULL.
template <dlpack::ManagedLike M>
absl::StatusOr<ImportedTensor> import_dlpack(M* managed) {
  ImportedTensor::Holder holder(managed, [](void* held) {
    M* const self = static_cast<M*>(held);
    if (self->deleter != nullptr) self->deleter(self);
  });
  if (managed == nullptr) return internal::refuse_null_dlpack();
  uint64_t flags = 0;
  if constexpr (dlpack::VersionedLike<M>) {
    // Nothing behind the version may be read in another major version.
    if (managed->version.major != dlpack::kMajor)
      return internal::refuse_dlpack_version(managed->version.major,
                                             managed->version.minor);
    flags = managed->flags;
  }
  absl::StatusOr<TensorView> view = view_of_dlpack(managed->dl_tensor, flags);
  if (!view.ok()) return std::move(view).status();
  return ImportedTensor(std::move(holder), *view);
}

// A managed tensor of type M for `view`, with its own shape and strides.
// `owner` keeps the memory alive. The consumer calls the deleter.
// kInvalidArgument for an impossible view, and for a read-only view when M has
// no flags.
template <dlpack::ManagedLike M = dlpack::ManagedTensorVersioned>
absl::StatusOr<M*> export_dlpack(
    const TensorView& view,
    // Moved below, which clang-tidy does not see in a template.
    // NOLINTNEXTLINE(performance-unnecessary-value-param)
    std::shared_ptr<void> owner) {
  struct Export {
    M managed = {};
    internal::Exported kept;
  };
  auto made = std::make_unique<Export>();
  absl::StatusOr<dlpack::Tensor> tensor =
      internal::describe_export(view, dlpack::VersionedLike<M>, &made->kept);
  if (!tensor.ok()) return std::move(tensor).status();
  made->kept.owner = std::move(owner);
  M& managed = made->managed;
  auto& out = managed.dl_tensor;
  out.data = tensor->data;
  using Type = decltype(out.device.device_type);
  out.device.device_type = static_cast<Type>(tensor->device.device_type);
  out.device.device_id = tensor->device.device_id;
  out.ndim = tensor->ndim;
  out.dtype.code = tensor->dtype.code;
  out.dtype.bits = tensor->dtype.bits;
  out.dtype.lanes = tensor->dtype.lanes;
  out.shape = tensor->shape;
  out.strides = tensor->strides;
  out.byte_offset = 0;
  if constexpr (dlpack::VersionedLike<M>) {
    managed.version.major = dlpack::kMajor;
    managed.version.minor = dlpack::kMinor;
    managed.flags = view.read_only() ? dlpack::kReadOnly : 0;
  }
  managed.manager_ctx = made.get();
  managed.deleter = [](M* self) {
    delete static_cast<Export*>(self->manager_ctx);
  };
  return &made.release()->managed;
}

}  // namespace distwrap

#endif  // DISTWRAP_DLPACK_H_
