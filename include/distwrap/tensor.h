// Tensors: counted handles of elements with a shape, a layout and a device.
//
// Copying a Tensor copies the handle: a write through one copy is seen through
// all. A default Tensor is undefined: it has no elements, no shape, and only
// defined() may be asked. Sizes and strides are counted in elements.
//
// Threads: handles may be copied and dropped in any thread; the program orders
// threads of which one writes to a tensor. Ownership: the last handle frees
// the tensor, and the last tensor of a storage frees the storage.
//
//   absl::StatusOr<Tensor> x = ops::randn({2, 3});
//   float* first = x->data<float>();
//   distwrap::all_reduce(x->view());
#ifndef DISTWRAP_TENSOR_H_
#define DISTWRAP_TENSOR_H_

#include "distwrap/dlpack.h"
#include "distwrap/export.h"
#include "distwrap/key_set.h"
#include "distwrap/scalar.h"
#include "distwrap/tensor_view.h"
#include "distwrap/types.h"

#include <absl/container/inlined_vector.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <atomic>
#include <cassert>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace distwrap {

using Dims = absl::InlinedVector<int64_t, 5>;

namespace autograd {
class Node;
}

namespace internal {
struct LeafState;  // src/dispatch/autograd
struct ViewState;

struct StorageState {
  std::atomic<int64_t> references{1};
  void* data = nullptr;
  int64_t bytes = 0;
  Device device;
  std::atomic<uint64_t> version{0};
  std::function<void(void*)> release;
  // The number of storages whose `release` is code of the same library.
  std::atomic<int64_t>* objects = nullptr;
  // The size of the block that begins with this state and holds the data behind
  // it; 0 where the data lies elsewhere.
  size_t block_bytes = 0;
};

// The sizes and the strides of a tensor. Five dimensions need no allocation.
class Shape {
 public:
  Shape() = default;
  ~Shape() {
    if (values_ != inline_) delete[] values_;
  }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;
  // Once, for a new tensor; the caller writes both.
  void set_dims(size_t dims) {
    dims_ = dims;
    if (2 * dims > std::size(inline_)) values_ = new int64_t[2 * dims];
  }
  size_t dims() const { return dims_; }
  int64_t* sizes() { return values_; }
  int64_t* strides() { return values_ + dims_; }
  const int64_t* sizes() const { return values_; }
  const int64_t* strides() const { return values_ + dims_; }

 private:
  size_t dims_ = 0;
  int64_t* values_ = inline_;
  int64_t inline_[10];
};

struct TensorState {
  TensorState();
  ~TensorState();
  static void* operator new(size_t bytes);
  static void operator delete(void* block, size_t bytes);

  std::atomic<int64_t> references{1};
  std::atomic<int64_t> weak_references{1};  // all strong ones count as one
  dispatch::KeySet keys;
  char* data = nullptr;  // the element at index 0
  int64_t offset = 0;    // where that element lies in the storage
  int64_t count = 0;
  DType dtype = DType::kF32;
  bool contiguous = true;
  Device device;
  StorageState* storage = nullptr;
  Shape shape;
  // The node that computed the tensor, held by one reference, and the number of
  // the node's output.
  autograd::Node* node = nullptr;
  uint32_t output = 0;
  bool requires_grad = false;  // a leaf that asks for its gradient
  std::unique_ptr<LeafState> leaf;
  std::unique_ptr<ViewState> view;
  std::shared_ptr<void> extension;
  uint64_t id;
};

// The number of objects that need the code of the library that has this
// function: it is not unloaded before they are gone.
// nullptr for a library that load_library() has not loaded: it stays.
DISTWRAP_EXPORT std::atomic<int64_t>* objects_of_library(void (*function)());
// The number for the library that calls this with a type of its own.
template <class T>
[[gnu::visibility("hidden")]] std::atomic<int64_t>* objects_here() {
  static std::atomic<int64_t>* const objects =
      objects_of_library(reinterpret_cast<void (*)()>(&objects_here<T>));
  return objects;
}

DISTWRAP_EXPORT void free_tensor(TensorState* state);
DISTWRAP_EXPORT void free_storage(StorageState* state);

// Drops one reference. The holder of the only reference needs no atomic
// subtraction: nobody else can make another one.
inline void drop_storage(StorageState* state) {
  if (state->references.load(std::memory_order_acquire) == 1 ||
      state->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    free_storage(state);
  }
}
inline void drop_tensor(TensorState* state) {
  if (state->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    free_tensor(state);
  }
}
}  // namespace internal

// Bytes that several tensors may share.
class DISTWRAP_EXPORT Storage {
 public:
  Storage() = default;
  // `bytes` bytes at `data` on `device`; `release(data)` is called at the end,
  // in the thread that drops the last handle.
  template <class Release>
  Storage(void* data, int64_t bytes, Device device, Release release)
      : Storage(data, bytes, device, std::move(release),
                internal::objects_here<Release>()) {}
  // Memory that somebody else frees.
  Storage(void* data, int64_t bytes, Device device)
      : Storage(data, bytes, device, nullptr, nullptr) {}
  // New memory of a device, from the allocator that its library of kernels has
  // brought (distwrap/registration.h); host memory is aligned to 64 bytes.
  // Errors: kOutOfMemory, kNoKernel for a device without an allocator.
  static absl::StatusOr<Storage> allocate(int64_t bytes, Device device);

  Storage(const Storage& other) : state_(other.state_) {
    if (state_ != nullptr) {
      state_->references.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Storage(Storage&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  Storage& operator=(Storage other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Storage() {
    if (state_ != nullptr) internal::drop_storage(state_);
  }

  bool defined() const { return state_ != nullptr; }
  void* data() const { return state_->data; }
  int64_t bytes() const { return state_->bytes; }
  Device device() const { return state_->device; }
  // The number of writes that operators have declared.
  uint64_t version() const {
    return state_->version.load(std::memory_order_relaxed);
  }
  bool is_same(const Storage& other) const { return state_ == other.state_; }
  internal::StorageState* state() const { return state_; }
  // Takes over one reference.
  static Storage adopt(internal::StorageState* state) {
    Storage storage;
    storage.state_ = state;
    return storage;
  }
  internal::StorageState* release() { return std::exchange(state_, nullptr); }

 private:
  friend class Tensor;
  Storage(void* data, int64_t bytes, Device device,
          std::function<void(void*)> release, std::atomic<int64_t>* objects);
  internal::StorageState* state_ = nullptr;
};

class DISTWRAP_EXPORT Tensor {
 public:
  constexpr Tensor() = default;
  Tensor(const Tensor& other) : state_(other.state_) {
    if (state_ != nullptr) {
      state_->references.fetch_add(1, std::memory_order_relaxed);
    }
  }
  constexpr Tensor(Tensor&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Tensor() {
    if (state_ != nullptr) internal::drop_tensor(state_);
  }

  // A tensor of these sizes and strides in a storage, from element `offset` on.
  // Errors: kArgument where it does not lie in the storage.
  static absl::StatusOr<Tensor> of_storage(Storage storage, DType dtype,
                                           absl::Span<const int64_t> sizes,
                                           absl::Span<const int64_t> strides,
                                           int64_t offset = 0);
  // A tensor without initial values, row-major.
  // Errors: kArgument, and those of Storage::allocate.
  static absl::StatusOr<Tensor> empty(absl::Span<const int64_t> sizes,
                                      DType dtype = DType::kF32,
                                      Device device = kCpu);
  // The memory of a view, without a copy; `release` is called when the last
  // tensor of it ends. Errors: kInvalidArgument for an impossible view.
  static absl::StatusOr<Tensor> of_view(
      const TensorView& view, std::function<void()> release = nullptr);
  // A tensor that shares the memory of another library's tensor.
  static absl::StatusOr<Tensor> of_dlpack(ImportedTensor imported);

  bool defined() const { return state_ != nullptr; }
  int dims() const { return static_cast<int>(state_->shape.dims()); }
  absl::Span<const int64_t> sizes() const {
    return {state_->shape.sizes(), state_->shape.dims()};
  }
  absl::Span<const int64_t> strides() const {
    return {state_->shape.strides(), state_->shape.dims()};
  }
  // The extent of a dimension; negative numbers count from the last one.
  int64_t size(int dim) const {
    return sizes()[static_cast<size_t>(dim < 0 ? dim + dims() : dim)];
  }
  int64_t stride(int dim) const {
    return strides()[static_cast<size_t>(dim < 0 ? dim + dims() : dim)];
  }
  // The number of elements.
  int64_t count() const { return state_->count; }
  DType dtype() const { return state_->dtype; }
  Device device() const { return state_->device; }
  // Whether the elements lie row-major without gaps.
  bool is_contiguous() const { return state_->contiguous; }
  // The address of the element at index 0; nullptr on the meta device.
  void* data() const { return state_->data; }
  // data() as T*, which has to be the C++ type of dtype(): 16-bit floats are
  // uint16_t, bool is uint8_t or bool.
  template <class T>
  T* data() const {
    assert(sizeof(T) == static_cast<size_t>(dtype_size(dtype())));
    return reinterpret_cast<T*>(state_->data);
  }
  Storage storage() const;
  // The number of elements in the storage before index 0.
  int64_t storage_offset() const { return state_->offset; }
  dispatch::KeySet keys() const {
    return state_ != nullptr ? state_->keys : dispatch::KeySet();
  }
  uint64_t version() const {
    return state_->storage->version.load(std::memory_order_relaxed);
  }
  // Different for each tensor of the process.
  uint64_t id() const { return state_->id; }
  bool is_same(const Tensor& other) const { return state_ == other.state_; }
  int64_t use_count() const {
    return state_ == nullptr
               ? 0
               : state_->references.load(std::memory_order_relaxed);
  }

  // The only element, as a number. Errors: kArgument for a tensor of another
  // number of elements, or not in host memory.
  absl::StatusOr<Scalar> item() const;
  // The memory, type and shape of the tensor, as communication calls take them.
  // Borrowed: it is of use as long as the tensor lives.
  TensorView view() const;
  // NOLINTNEXTLINE(google-explicit-constructor): every call takes a tensor.
  operator TensorView() const { return view(); }
  // "f32 [2, 3] cpu", for errors.
  std::string text() const;

  // Gradients: distwrap/autograd.h says more.
  bool requires_grad() const;
  bool is_leaf() const;
  // Errors: kArgument for a type without gradients, or for a tensor that is not
  // a leaf.
  absl::Status set_requires_grad(bool wanted = true) const;
  // The sum of the gradients of a leaf; undefined before the first one.
  Tensor grad() const;
  void set_grad(Tensor grad) const;

  internal::TensorState* state() const { return state_; }
  // Takes over one reference.
  static Tensor adopt(internal::TensorState* state) {
    Tensor tensor;
    tensor.state_ = state;
    return tensor;
  }
  internal::TensorState* release() { return std::exchange(state_, nullptr); }

 private:
  internal::TensorState* state_ = nullptr;
};
static_assert(sizeof(Tensor) == sizeof(void*));

// A handle that keeps the tensor's memory only while others do.
class DISTWRAP_EXPORT WeakTensor {
 public:
  WeakTensor() = default;
  explicit WeakTensor(const Tensor& tensor);
  WeakTensor(const WeakTensor& other);
  WeakTensor(WeakTensor&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  WeakTensor& operator=(WeakTensor other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~WeakTensor();
  // The tensor; undefined after its last handle has gone.
  Tensor lock() const;

 private:
  internal::TensorState* state_ = nullptr;
};

}  // namespace distwrap

#endif  // DISTWRAP_TENSOR_H_
