// A non-owning view of elements: what operations read and write.
//
// Either flat, a number of elements, or with a shape and perhaps strides, both
// in elements. Operations take contiguous (row-major) views only; what is wrong
// with a view is an error of the call that gets it.
//
// Threads: a value. Ownership: none; the memory outlives the operation, shape
// and strides are borrowed as long as the view is used.
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

  // No elements, no memory.
  constexpr TensorView() = default;

  // `count` elements at `data`, flat. Not negative.
  constexpr TensorView(void* data, int64_t count, DType dtype,
                       Device device = kCpu)
      : data_(data),
        count_(count),
        meta_(static_cast<uint8_t>(dtype) | device_bits(device) | kOneDim) {}

  // With a shape: extents of 0 or more, whose product fits into an int64_t, at
  // most kMaxDims; none is one element (0-d). No strides mean row-major, else
  // there is one for each extent.
  TensorView(void* data, absl::Span<const int64_t> shape, DType dtype,
             Device device = kCpu, absl::Span<const int64_t> strides = {});

  // Elements of a C++ type. A view of const memory is read-only.
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

  // A container with data() and size(), such as std::vector<float>.
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
  // All elements; -1 when the shape is impossible.
  constexpr int64_t count() const {
    return (meta_ & (kStrided | kImpossible)) == 0 ? count_ : unusual_count();
  }
  constexpr DType dtype() const {
    return static_cast<DType>(static_cast<uint8_t>(meta_));
  }
  // A type that is no DLPack code (0 to 254) becomes 255.
  constexpr Device device() const {
    return {static_cast<uint8_t>(meta_ >> kDeviceShift) ^ kCpu.type,
            static_cast<int32_t>(meta_ >> 32)};
  }
  // May only be an input.
  constexpr bool read_only() const { return (meta_ & kReadOnly) != 0; }

  // 1 for a flat view, 0 for a 0-d one.
  constexpr int dims() const {
    return static_cast<uint8_t>(meta_ >> kDimsShift);
  }
  // Of dimension `d`; 1 for one that the view does not have.
  constexpr int64_t extent(int d) const {
    if (d < 0 || d >= dims()) return 1;
    return shape_ != nullptr ? shape_[d] : count();
  }
  // Extent of dimension 0: count() when flat, 1 when 0-d.
  constexpr int64_t rows() const { return extent(0); }
  // Whether the elements lie row-major without gaps. Extents of 1 do not
  // matter, and a view without elements is contiguous.
  constexpr bool contiguous() const {
    return (meta_ & (kStrided | kImpossible)) == 0;
  }
  // Whether the shape keeps the rules above.
  constexpr bool possible() const { return (meta_ & kImpossible) == 0; }
  // Empty for a flat view and for a 0-d one.
  absl::Span<const int64_t> shape() const {
    return shape_ != nullptr
               ? absl::MakeConstSpan(shape_, static_cast<size_t>(dims()))
               : absl::Span<const int64_t>();
  }
  // Empty for a contiguous view.
  absl::Span<const int64_t> strides() const;
  // "f32 [2, 3] strides [1, 2]", "f32 x 6" for a flat view.
  std::string text() const;

  // Elements first to first + count - 1 as a flat view; of a contiguous view
  // that has them, else the result is refused by every call.
  TensorView flat(int64_t first, int64_t count) const;
  // The same, read-only.
  constexpr TensorView as_read_only() const {
    TensorView view = *this;
    view.meta_ |= kReadOnly;
    return view;
  }

 private:
  friend struct internal::ViewAccess;

  // Beside the element type and the device, so that one compare tells a plain
  // view in host memory.
  static constexpr uint64_t kStrided = 0x100, kImpossible = 0x200,
                            kReadOnly = 0x400;
  static constexpr int kDeviceShift = 16, kDimsShift = 24;
  static constexpr uint64_t kOneDim = uint64_t{1} << kDimsShift;

  static constexpr uint64_t device_bits(Device device) {
    const bool is_code = device.type >= 0 && device.type < 255;
    const auto type = static_cast<uint64_t>(is_code ? device.type : 255);
    return (type ^ static_cast<uint64_t>(kCpu.type)) << kDeviceShift |
           static_cast<uint64_t>(static_cast<uint32_t>(device.id)) << 32;
  }
  int64_t unusual_count() const;

  // Views are copied on the way of every call: four words, no more.
  void* data_ = nullptr;
  int64_t count_ = 0;  // of a strided view, the address of its strides
  const int64_t* shape_ = nullptr;
  // From the lowest byte on: element type, the bits above, device type (0 is
  // cpu), dimensions; then the device's number.
  uint64_t meta_ = kOneDim;
};

namespace internal {

// What the check of a call looks at.
struct ViewAccess {
  // The element type alone for a plain view in host memory, else more.
  static constexpr uint32_t code(const TensorView& view) {
    return static_cast<uint32_t>(view.meta_) & 0xffffff;
  }
  // What memory of a device adds to that; 0 for the host.
  static constexpr uint32_t place(Device device) {
    return static_cast<uint32_t>(TensorView::device_bits(device)) & 0xffffff;
  }
  // count() of a view that is known to be contiguous.
  static constexpr int64_t count(const TensorView& view) { return view.count_; }
  static constexpr uint32_t kDTypeMask = 0xff, kStrided = TensorView::kStrided,
                            kImpossible = TensorView::kImpossible,
                            kReadOnly = TensorView::kReadOnly;
  // Member by member, so that a copy need not lie in memory.
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
