// Tensors of Python as tensors of the C API, without a copy: the buffer
// protocol (NumPy, array, memoryview), DLPack's table of functions (torch), or
// the method __dlpack__.
//
// Threads: with the GIL.
#ifndef DISTWRAP_PYTHON_SRC_TENSOR_H_
#define DISTWRAP_PYTHON_SRC_TENSOR_H_

#include "distwrap/c.h"

#include <cstdint>
#include <memory>
#include <nanobind/nanobind.h>
#include <vector>

namespace distwrap_python {

// The use that a call makes of a tensor; kEither is written on some ranks only.
enum class Use : uint8_t { kRead, kWritten, kEither };
// How a call treats element types that the C API lacks: kMoved takes their
// bytes; kSummed takes the parts of complex numbers for the reductions that are
// those of the parts; kPlaced takes strided tensors as well.
enum class Elements : uint8_t { kMoved, kSummed, kReduced, kPlaced };

// One tensor, which is held while the object lives.
class Tensor {
 public:
  Tensor() = default;
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  // Reads `object`, the argument `name` of `call`. Throws a TypeError for what
  // is no tensor, and a ValueError for one that a call cannot use.
  void read(nanobind::handle object, const char* call, const char* name,
            Use use, Elements elements);
  const distwrap_tensor* get() const { return &tensor_; }
  bool is_read_only() const { return read_only_; }
  bool is_on_device() const {
    return tensor_.device.device_type == DW_DEVICE_CUDA;
  }
  // The stream on which the tensor's library works now. Precondition:
  // is_on_device().
  dw_stream current_stream() const;
  [[noreturn]] static void refuse_read_only(const char* call, const char* name);
  // Refuses a tensor without dimensions, where its rows count.
  void check_rows(const char* call, const char* name) const;

 private:
  bool read_exchange(nanobind::handle object, void* table);
  bool read_buffer(nanobind::handle object);
  bool read_of_ml_dtypes(nanobind::handle object);
  bool read_dlpack(nanobind::handle object);
  void check(nanobind::handle object, const char* call, const char* name,
             Use use, Elements elements);

  static constexpr int kDims = 8;
  distwrap_tensor tensor_ = {};
  int64_t shape_[kDims];
  std::vector<int64_t> long_shape_;  // where there are more dimensions
  std::vector<int64_t> strides_;     // where a buffer is strided
  int32_t dims_ = 0;                 // as given
  bool read_only_ = false;
  const char* problem_ = nullptr;  // why the elements cannot be used
  bool has_buffer_ = false;
  Py_buffer buffer_;
  distwrap_managed_tensor* managed_ = nullptr;
  PyObject* owner_ = nullptr;
  void* exchange_ = nullptr;  // the library's table, or NULL
};

// The tensors of one call.
class Tensors {
 public:
  // A list of one tensor for each rank.
  void read_list(nanobind::handle list, const char* call, const char* name,
                 Use use, Elements elements);
  const distwrap_tensor* const* data() const { return pointers_.data(); }
  uint64_t size() const { return pointers_.size(); }
  // NULL when there is none.
  const Tensor* first() const {
    return tensors_.empty() ? nullptr : tensors_.front().get();
  }

 private:
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<const distwrap_tensor*> pointers_;
};

}  // namespace distwrap_python

#endif  // DISTWRAP_PYTHON_SRC_TENSOR_H_
