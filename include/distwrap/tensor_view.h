// A non-owning view of elements: what operations read and write.
//
// A view is flat (a number of elements) or has a shape and perhaps strides,
// both counted in elements. Operations accept contiguous (row-major) views
// only. A constructor never fails: the call that gets an impossible view
// refuses it.
//
// Threads: a value. Ownership: none. The memory has to outlive the operation;
// shape and strides are borrowed as long as the view is used.
//
//   std::vector<float> x(1024);
//   distwrap::all_reduce(distwrap::TensorView(x));
//   const int64_t shape[] = {32, 32};
//   distwrap::broadcast(distwrap::TensorView(x.data(), shape), root);
#ifndef DISTWRAP_TENSOR_VIEW_H_
#define DISTWRAP_TENSOR_VIEW_H_

#include "distwrap/export.h"
#include "distwrap/types.h"

#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace distwrap {

namespace internal {
struct ViewAccess;
}

class DISTWRAP_EXPORT TensorView {
 public:
  static constexpr int kMaxDims = 64;
  // Devices of a type are numbered 0 to this, exclusively.
  static constexpr int32_t kMostDevices = 8191;

  // A view of no elements and no memory.
  constexpr TensorView() = default;

  // A flat view of `count` elements at `data`; `count` is not negative.
  constexpr TensorView(void* data, int64_t count, DType dtype,
                       Device device = kCpu)
      : data_(data),
        count_(count),
        meta_(static_cast<uint8_t>(dtype) | device_bits(device) | kOneDim) {}

  // A view with a shape: at most kMaxDims extents of 0 or more, whose product
  // fits into an int64_t. An empty shape is one element (0-d). Without strides
  // the view is row-major; otherwise there is one stride for each extent.
  TensorView(void* data, absl::Span<const int64_t> shape, DType dtype,
             Device device = kCpu, absl::Span<const int64_t> strides = {});

  // A view of elements of a C++ type. A view of const memory is read-only.
  template <class T>
  constexpr TensorView(T* data, int64_t count)
      : TensorView(const_cast<std::remove_const_t<T>*>(data), count,
                   dtype_of<std::remove_const_t<T>>) {
    if constexpr (std::is_const_v<T>) meta_ |= kReadOnly;
  }
  template <class T>
  TensorView(T* data, absl::Span<const int64_t> shape,
             absl::Span<const int64_t> strides = {})
      : TensorView(const_cast<std::remove_const_t<T>*>(data), shape,
                   dtype_of<std::remove_const_t<T>>, kCpu, strides) {
    if constexpr (std::is_const_v<T>) meta_ |= kReadOnly;
  }

  // A view of a container with data() and size(), such as std::vector<float>.
  template <class Container>
  requires requires(Container& c) {
    c.data();
    c.size();
  } &&(!std::is_same_v<std::remove_cv_t<Container>,
                       TensorView>)constexpr explicit TensorView(Container&
                                                                     container)
      : TensorView(container.data(), static_cast<int64_t>(container.size())) {
  }

  constexpr void* data() const { return data_; }
  // The number of elements; -1 when the shape is impossible.
  constexpr int64_t count() const {
    return (meta_ & (kStrided | kImpossible)) == 0 ? count_ : unusual_count();
  }
  constexpr DType dtype() const {
    return static_cast<DType>(static_cast<uint8_t>(meta_));
  }
  // A type that is no DLPack code (0 to 254) becomes 255; of a number the lower
  // 24 bits are kept.
  constexpr Device device() const {
    return {static_cast<uint8_t>(meta_ >> kDeviceTypeShift) ^ kCpu.type,
            static_cast<int32_t>(static_cast<int64_t>(meta_) >> kWholeIdShift)};
  }
  // A read-only view may only be an input.
  constexpr bool read_only() const { return (meta_ & kReadOnly) != 0; }

  // The number of dimensions: 1 for a flat view, 0 for a 0-d view.
  constexpr int dims() const {
    return static_cast<uint8_t>(meta_ >> kDimsShift);
  }
  // The extent of dimension `d`; 1 for a dimension that the view does not have.
  constexpr int64_t extent(int d) const {
    if (d < 0 || d >= dims()) return 1;
    return shape_ != nullptr ? shape_[d] : count();
  }
  // The extent of dimension 0: count() for a flat view, 1 for a 0-d view.
  constexpr int64_t rows() const { return extent(0); }
  // Whether the elements lie row-major without gaps. Extents of 1 do not
  // matter, and a view without elements is contiguous.
  constexpr bool contiguous() const {
    return (meta_ & (kStrided | kImpossible)) == 0;
  }
  // Whether the shape keeps the rules of the constructor.
  constexpr bool possible() const { return (meta_ & kImpossible) == 0; }
  // The extents; empty for a flat view and for a 0-d view.
  absl::Span<const int64_t> shape() const {
    return shape_ != nullptr
               ? absl::MakeConstSpan(shape_, static_cast<size_t>(dims()))
               : absl::Span<const int64_t>();
  }
  // The strides; empty for a contiguous view.
  absl::Span<const int64_t> strides() const;
  // The view as text: "f32 [2, 3] strides [1, 2]", "f32 x 6" for a flat view.
  std::string text() const;

  // Elements `first` to first + count - 1 as a flat view. This view has to be
  // contiguous and has to have them; otherwise every call refuses the result.
  TensorView flat(int64_t first, int64_t count) const;
  // This view, read-only.
  constexpr TensorView as_read_only() const {
    TensorView view = *this;
    view.meta_ |= kReadOnly;
    return view;
  }

 private:
  friend struct internal::ViewAccess;

  // The lower half of `meta_` says whether a view is plain and where it lies:
  // one compare of 32 bits tells a plain view in a communicator's memory.
  static constexpr uint64_t kStrided = 0x100, kImpossible = 0x200,
                            kReadOnly = 0x400;
  static constexpr int kDeviceTypeShift = 11, kDeviceIdShift = 19,
                       kDimsShift = 32, kWholeIdShift = 40;
  static constexpr uint64_t kOneDim = uint64_t{1} << kDimsShift;

  // The lower half has room for a number below kMostDevices; any other one is
  // no device of any communicator, and stands in the upper half alone.
  static constexpr uint64_t device_bits(Device device) {
    const bool is_code = device.type >= 0 && device.type < 255;
    const auto type = static_cast<uint64_t>(is_code ? device.type : 255);
    const bool is_device = device.id >= 0 && device.id < kMostDevices;
    const auto id = static_cast<uint64_t>(is_device ? device.id : kMostDevices);
    return (type ^ static_cast<uint64_t>(kCpu.type)) << kDeviceTypeShift |
           id << kDeviceIdShift |
           (static_cast<uint64_t>(device.id) & 0xffffff) << kWholeIdShift;
  }
  int64_t unusual_count() const;

  // A view has only four words because every call copies its views.
  void* data_ = nullptr;
  int64_t count_ = 0;  // for a strided view, the address of its strides
  const int64_t* shape_ = nullptr;
  // From the lowest bit on: element type 8, the flags above 3, device type 8 (0
  // is cpu), device number 13; dimensions 8, the whole device number 24.
  uint64_t meta_ = kOneDim;
};

namespace internal {

// The access that the argument checks of a call need.
struct ViewAccess {
  // The element type alone for a plain view in host memory, a larger number
  // otherwise.
  static constexpr uint32_t code(const TensorView& view) {
    return static_cast<uint32_t>(view.meta_);
  }
  // The part that a device's memory, by type and number, adds to it; 0 for the
  // host.
  static constexpr uint32_t place(Device device) {
    return static_cast<uint32_t>(TensorView::device_bits(device));
  }
  // count() of a view that is known to be contiguous.
  static constexpr int64_t count(const TensorView& view) { return view.count_; }
  static constexpr uint32_t kDTypeMask = 0xff, kStrided = TensorView::kStrided,
                            kImpossible = TensorView::kImpossible,
                            kReadOnly = TensorView::kReadOnly;
  // Copies member by member, so that the compiler may keep the copy in
  // registers.
  [[gnu::always_inline]] static constexpr TensorView copy(
      const TensorView& view) {
    TensorView result;
    result.data_ = view.data_;
    result.count_ = view.count_;
    result.shape_ = view.shape_;
    result.meta_ = view.meta_;
    return result;
  }
};

}  // namespace internal

}  // namespace distwrap

#endif  // DISTWRAP_TENSOR_VIEW_H_
