#include "distwrap/dlpack.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <limits>
#include <optional>

namespace distwrap::internal {
namespace {

// Device codes of DLPack.
constexpr int32_t kHostMemory = 1, kCudaPinned = 3, kRocmPinned = 11,
                  kMostDevices = 254;
constexpr uint64_t kCopied = 2, kPadded = 4;

absl::Status refuse(std::string what, std::string expected, std::string actual,
                    std::string next_step) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = "dlpack",
                           .expected = std::move(expected),
                           .actual = std::move(actual),
                           .next_step = std::move(next_step)});
}

std::optional<DType> dtype_of_code(const dlpack::DataType& type) {
  if (type.lanes != 1) return std::nullopt;
  switch (type.code << 8 | type.bits) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case (code) << 8 | (bits):                                         \
    return DType::enumerator;
#include "distwrap/abi/dtypes.def"
    default:
      return std::nullopt;
  }
}

constexpr dlpack::DataType kTypes[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {code, bits, 1},
#include "distwrap/abi/dtypes.def"
};

std::string known_dtypes() {
  std::string names;
  for (size_t i = 0; i < std::size(kTypes); ++i)
    absl::StrAppend(&names, i == 0 ? "" : " ",
                    dtype_name(static_cast<DType>(i)));
  return names;
}

// Whether `count` elements at `address` fit into the address space.
bool fits(uintptr_t address, int64_t count, int64_t size) {
  int64_t bytes;
  uintptr_t end;
  return !__builtin_mul_overflow(count, size, &bytes) &&
         !__builtin_add_overflow(address, static_cast<uintptr_t>(bytes), &end);
}

absl::StatusOr<Device> device_of(const dlpack::Place& place) {
  const int32_t type = place.device_type;
  if (type < 1 || type > kMostDevices)
    return refuse("the tensor's device type is unknown",
                  absl::StrCat("1 to ", kMostDevices), absl::StrCat(type),
                  "give a tensor of a DLPack device");
  if (type == kHostMemory || type == kCudaPinned || type == kRocmPinned)
    return kCpu;
  return Device{type, place.device_id};
}

}  // namespace

absl::Status refuse_null_dlpack() {
  return refuse("there is no tensor", "", "NULL",
                "give a managed tensor that was not taken yet");
}

absl::Status refuse_dlpack_version(uint32_t major, uint32_t minor) {
  return refuse("the tensor's DLPack version is unknown", "1.x",
                absl::StrCat(major, ".", minor),
                "ask the producer for version 1 (max_version in Python)");
}

absl::StatusOr<TensorView> view_of(const dlpack::Tensor& tensor,
                                   uint64_t flags) {
  if ((flags & ~(dlpack::kReadOnly | kCopied | kPadded)) != 0)
    return refuse("the tensor has unknown flags", "bits 0 to 2",
                  absl::StrCat("0x", absl::Hex(flags)),
                  "ask the producer for version 1.1");
  const std::optional<DType> dtype = dtype_of_code(tensor.dtype);
  if (!dtype.has_value())
    return refuse(
        "the tensor's element type is unknown", known_dtypes(),
        absl::StrCat("code ", tensor.dtype.code, ", ", tensor.dtype.bits,
                     " bits, ", tensor.dtype.lanes, " lanes"),
        "convert it, or view it as integers of the same size");
  const absl::StatusOr<Device> device = device_of(tensor.device);
  if (!device.ok()) return device.status();
  if (tensor.ndim < 0 || tensor.ndim > TensorView::kMaxDims)
    return refuse("the tensor's number of dimensions is impossible",
                  absl::StrCat("0 to ", TensorView::kMaxDims),
                  absl::StrCat(tensor.ndim), "flatten it");
  const auto dims = static_cast<size_t>(tensor.ndim);
  if (dims > 0 && tensor.shape == nullptr)
    return refuse("the tensor has dimensions but no shape", "",
                  absl::StrCat(dims, " dimensions"), "correct the producer");
  const absl::Span<const int64_t> shape(tensor.shape, dims);
  absl::Span<const int64_t> strides;
  if (tensor.strides != nullptr) strides = {tensor.strides, dims};

  TensorView view(tensor.data, shape, *dtype, *device, strides);
  if (!view.possible())
    return refuse("the tensor's shape is impossible",
                  "extents of 0 or more and fewer than 2^63 elements",
                  view.text(), "correct the producer");
  if (view.count() > 0) {
    auto address = reinterpret_cast<uintptr_t>(tensor.data);
    if (tensor.data == nullptr)
      return refuse("the tensor has elements but no memory", "", view.text(),
                    "correct the producer");
    const int64_t size = dtype_size(*dtype);
    if (__builtin_add_overflow(address, tensor.byte_offset, &address) ||
        !fits(address, view.count(), size))
      return refuse("the tensor does not fit into the address space", "",
                    absl::StrCat(view.text(), " at byte ", tensor.byte_offset),
                    "correct the producer");
    if (address % static_cast<uintptr_t>(size) != 0)
      return refuse("the tensor's elements are not aligned",
                    absl::StrCat("an address that is a multiple of ", size),
                    absl::StrCat("0x", absl::Hex(address)),
                    "copy it to aligned memory");
    view = TensorView(static_cast<std::byte*>(tensor.data) + tensor.byte_offset,
                      shape, *dtype, *device, strides);
  }
  return (flags & dlpack::kReadOnly) != 0 ? view.as_read_only() : view;
}

absl::StatusOr<dlpack::Tensor> describe_export(const TensorView& view,
                                               bool has_flags, Exported* kept) {
  const auto type = static_cast<size_t>(view.dtype());
  if (type >= std::size(kTypes) || view.count() < 0)
    return refuse("the view is impossible", "", view.text(),
                  "correct its element type, count or shape");
  if (view.read_only() && !has_flags)
    return refuse("an unversioned tensor cannot be read-only", "", view.text(),
                  "export a DLManagedTensorVersioned");
  const auto dims = static_cast<size_t>(view.dims());
  for (size_t d = 0; d < dims; ++d)
    kept->shape.push_back(view.extent(static_cast<int>(d)));
  kept->strides.assign(view.strides().begin(), view.strides().end());
  if (view.contiguous()) {
    kept->strides.assign(dims, 1);
    // With an extent of 0 the strides have no meaning, but they must not
    // overflow.
    for (size_t d = dims; view.count() > 0 && d-- > 1;)
      kept->strides[d - 1] = kept->strides[d] * kept->shape[d];
  }
  const Device device = view.device();
  return dlpack::Tensor{view.data(),
                        {device.type, device.id},
                        view.dims(),
                        kTypes[type],
                        dims == 0 ? nullptr : kept->shape.data(),
                        dims == 0 ? nullptr : kept->strides.data(),
                        0};
}

}  // namespace distwrap::internal
