// A non-owning view of contiguous elements: what operations read and write.
//
// Threads: a value. Ownership: none; the memory outlives the operation.
//
//   std::vector<float> x(1024);
//   distwrap::all_reduce(distwrap::TensorView(x));
#ifndef DISTWRAP_TENSOR_VIEW_H_
#define DISTWRAP_TENSOR_VIEW_H_

#include "distwrap/types.h"

#include <cstdint>
#include <type_traits>

namespace distwrap {

class TensorView {
 public:
  // No elements, no memory.
  constexpr TensorView() = default;

  // `count` elements at `data`. A negative count is an error of the call that
  // gets the view.
  constexpr TensorView(void* data, int64_t count, DType dtype,
                       Device device = kCpu)
      : data_(data), count_(count), dtype_(dtype), device_(device) {}

  // `count` elements of a C++ type. The view of const memory may only be an
  // input; operations never write inputs.
  template <class T>
  constexpr TensorView(T* data, int64_t count)
      : TensorView(const_cast<std::remove_const_t<T>*>(data), count,
                   dtype_of<std::remove_const_t<T>>) {}

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

  void* data() const { return data_; }
  int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

 private:
  void* data_ = nullptr;
  int64_t count_ = 0;
  DType dtype_ = DType::kU8;
  Device device_ = kCpu;
};

}  // namespace distwrap

#endif  // DISTWRAP_TENSOR_VIEW_H_
