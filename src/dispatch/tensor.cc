// Tensor: the handle's state, its construction, and what it tells.
#include "distwrap/tensor.h"

#include "dispatch/autograd/state.h"
#include "dispatch/fail.h"
#include "dispatch/free_list.h"
#include "dispatch/geometry.h"
#include "dispatch/host_storage.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <utility>

namespace distwrap {
namespace {

using dispatch::bad_argument;

__thread uint64_t next_number __attribute__((tls_model("initial-exec")));

uint64_t next_id() {
  // Each thread takes numbers in blocks, so that threads do not meet here.
  constexpr uint64_t kBlock = 1024;
  static std::atomic<uint64_t> blocks{0};
  if (next_number % kBlock == 0) [[unlikely]] {
    next_number =
        blocks.fetch_add(1, std::memory_order_relaxed) * kBlock + kBlock;
  }
  return next_number++;
}

// Floats of 8 bits can be sent; no operator computes with them.
bool is_only_moved(DType dtype) {
  return dtype == DType::kF8E4M3FN || dtype == DType::kF8E5M2;
}

absl::Status refuse_moved(absl::string_view call, DType dtype) {
  return bad_argument(call, "no tensor has this element type",
                      "types of 16 bits and more, 8-bit integers, bool",
                      std::string(dtype_name(dtype)));
}

// The state of a tensor of a storage, without checks, whose sizes and strides
// the caller sets. It takes over the reference of `storage`.
internal::TensorState* state_of(internal::StorageState* storage, char* data,
                                DType dtype, int64_t offset, int64_t count,
                                bool contiguous) {
  auto* const state = new internal::TensorState;
  state->data = data;
  state->offset = offset;
  state->count = count;
  state->dtype = dtype;
  state->contiguous = contiguous;
  state->device = storage->device;
  state->storage = storage;
  state->keys = dispatch::KeySet(dispatch::kDense, storage->device) |
                dispatch::KeySet(dispatch::kViewTracking);
  return state;
}

Tensor make(Storage storage, char* data, DType dtype,
            absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides,
            int64_t offset, int64_t count, bool contiguous) {
  internal::TensorState* const state =
      state_of(storage.release(), data, dtype, offset, count, contiguous);
  state->shape.set_dims(sizes.size());
  std::copy(sizes.begin(), sizes.end(), state->shape.sizes());
  std::copy(strides.begin(), strides.end(), state->shape.strides());
  return Tensor::adopt(state);
}

double half_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

namespace internal {

TensorState::TensorState() : id(next_id()) {}

TensorState::~TensorState() = default;

void* TensorState::operator new(size_t bytes) {
  void* const block = dispatch::take_block(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void TensorState::operator delete(void* block, size_t bytes) {
  dispatch::give_block(block, bytes);
}

void free_tensor(TensorState* state) {
  // The tensor gives up what it holds; weak handles keep the empty state.
  if (state->node != nullptr) {
    autograd::NodePtr(std::exchange(state->node, nullptr));
  }
  state->leaf.reset();
  state->view.reset();
  state->extension.reset();
  if (StorageState* const storage = std::exchange(state->storage, nullptr);
      storage != nullptr) {
    drop_storage(storage);
  }
  // Without weak handles nobody else knows the state.
  if (state->weak_references.load(std::memory_order_acquire) == 1 ||
      state->weak_references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete state;
  }
}

}  // namespace internal

absl::StatusOr<Tensor> Tensor::of_storage(Storage storage, DType dtype,
                                          absl::Span<const int64_t> sizes,
                                          absl::Span<const int64_t> strides,
                                          int64_t offset) {
  if (!storage.defined()) {
    return bad_argument("Tensor::of_storage", "the storage is empty");
  }
  const std::optional<dispatch::Extent> extent =
      dispatch::extent_of(sizes, strides);
  if (!extent.has_value()) {
    return bad_argument(
        "Tensor::of_storage", "impossible sizes or strides",
        "one stride for each size, sizes of 0 or more, at most 64 of them, and "
        "a product below 2^63",
        absl::StrCat("sizes ", dispatch::dims_text(sizes), " strides ",
                     dispatch::dims_text(strides)));
  }
  const int64_t unit = dtype_size(dtype), held = storage.bytes() / unit;
  if (offset < 0 || offset > held ||
      (extent->count > 0 &&
       (offset + extent->lowest < 0 || extent->highest >= held - offset))) {
    return bad_argument(
        "Tensor::of_storage", "the tensor does not lie in its storage",
        absl::StrCat("elements 0 to ", held - 1, " of ", dtype_name(dtype)),
        absl::StrCat("offset ", offset, ", sizes ", dispatch::dims_text(sizes),
                     ", strides ", dispatch::dims_text(strides)));
  }
  char* const data = storage.data() == nullptr
                         ? nullptr
                         : static_cast<char*>(storage.data()) + offset * unit;
  return make(std::move(storage), data, dtype, sizes, strides, offset,
              extent->count, dispatch::is_row_major(sizes, strides));
}

absl::StatusOr<Tensor> Tensor::empty(absl::Span<const int64_t> sizes,
                                     DType dtype, Device device) {
  int64_t whole = 1;
  bool is_empty = false;
  bool possible = sizes.size() <= dispatch::kMostDims;
  for (const int64_t size : sizes) {
    // The product without extents of 0 has to fit, too: strides come from it.
    possible =
        possible && size >= 0 &&
        !__builtin_mul_overflow(whole, std::max<int64_t>(size, 1), &whole);
    is_empty = is_empty || size == 0;
  }
  if (is_only_moved(dtype)) return refuse_moved("dw::empty", dtype);
  if (!possible || whole > std::numeric_limits<int64_t>::max() / 16) {
    return bad_argument("dw::empty", "impossible sizes",
                        "sizes of 0 or more, at most 64 of them, and a "
                        "product that can be addressed",
                        dispatch::dims_text(sizes));
  }
  const int64_t count = is_empty ? 0 : whole;
  const int64_t bytes = count * dtype_size(dtype);
  internal::StorageState* held =
      device == kCpu ? internal::host_storage(bytes, device) : nullptr;
  if (held == nullptr) {
    absl::StatusOr<Storage> storage = Storage::allocate(bytes, device);
    if (!storage.ok()) return std::move(storage).status();
    held = storage->release();
  }
  internal::TensorState* const state =
      state_of(held, static_cast<char*>(held->data), dtype, 0, count, true);
  state->shape.set_dims(sizes.size());
  int64_t* const own_sizes = state->shape.sizes();
  int64_t* const strides = state->shape.strides();
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    own_sizes[d] = sizes[d];
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return Tensor::adopt(state);
}

absl::StatusOr<Tensor> Tensor::of_view(const TensorView& view,
                                       std::function<void()> release) {
  if (!view.possible() || dispatch::backend_of(view.device()) < 0) {
    return bad_argument("Tensor::of_view", "no tensor can be made of the view",
                        "a possible shape on cpu, cuda or a private device",
                        view.text());
  }
  if (is_only_moved(view.dtype()))
    return refuse_moved("Tensor::of_view", view.dtype());
  Dims sizes(view.shape().begin(), view.shape().end());
  if (sizes.empty() && view.dims() == 1) sizes.push_back(view.count());
  Dims strides(view.strides().begin(), view.strides().end());
  if (strides.empty()) strides = dispatch::row_major(sizes);
  const std::optional<dispatch::Extent> extent =
      dispatch::extent_of(sizes, strides);
  if (!extent.has_value()) {
    return bad_argument("Tensor::of_view", "impossible shape", "", view.text());
  }
  const int64_t unit = dtype_size(view.dtype());
  char* const first = static_cast<char*>(view.data()) + extent->lowest * unit;
  const int64_t bytes =
      extent->count == 0 ? 0 : (extent->highest - extent->lowest + 1) * unit;
  Storage storage =
      release == nullptr
          ? Storage(first, bytes, view.device())
          : Storage(first, bytes, view.device(),
                    [done = std::move(release)](void*) { done(); });
  return make(std::move(storage), static_cast<char*>(view.data()), view.dtype(),
              sizes, strides, -extent->lowest, extent->count,
              dispatch::is_row_major(sizes, strides));
}

absl::StatusOr<Tensor> Tensor::of_dlpack(ImportedTensor imported) {
  auto held = std::make_shared<ImportedTensor>(std::move(imported));
  if (held->view().read_only()) {
    return bad_argument("Tensor::of_dlpack", "the memory is read-only",
                        "memory that operators may write", held->view().text());
  }
  return of_view(held->view(), [held] {});
}

Storage Tensor::storage() const {
  Storage storage;
  storage.state_ = state_->storage;
  storage.state_->references.fetch_add(1, std::memory_order_relaxed);
  return storage;
}

absl::StatusOr<Scalar> Tensor::item() const {
  if (!defined() || count() != 1 || device() != kCpu) {
    return bad_argument("Tensor::item", "the tensor is not one number",
                        "one element in host memory",
                        defined() ? text() : "an undefined tensor");
  }
  switch (dtype()) {
    case DType::kF16:
      return Scalar(half_to_double(*data<uint16_t>()));
    case DType::kBF16:
      return Scalar(static_cast<double>(std::bit_cast<float>(
          static_cast<uint32_t>(*data<uint16_t>()) << 16)));
    case DType::kBool:
      return Scalar(*data<uint8_t>() != 0);
#define DW_ITEM(dtype, type) \
  case DType::dtype:         \
    return Scalar(*data<type>());
      DW_ITEM(kU8, uint8_t)
      DW_ITEM(kI8, int8_t)
      DW_ITEM(kU16, uint16_t)
      DW_ITEM(kI16, int16_t)
      DW_ITEM(kU32, uint32_t)
      DW_ITEM(kI32, int32_t)
      DW_ITEM(kU64, uint64_t)
      DW_ITEM(kI64, int64_t)
      DW_ITEM(kF32, float)
      DW_ITEM(kF64, double)
#undef DW_ITEM
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      break;
  }
  return bad_argument("Tensor::item", "unknown element type");
}

TensorView Tensor::view() const {
  return TensorView(
      state_->data, sizes(), state_->dtype, state_->device,
      state_->contiguous ? absl::Span<const int64_t>() : strides());
}

std::string Tensor::text() const {
  if (!defined()) return "undefined";
  return absl::StrCat(dtype_name(dtype()), " ", dispatch::dims_text(sizes()),
                      " ", dispatch::device_text(device()));
}

WeakTensor::WeakTensor(const Tensor& tensor) : state_(tensor.state()) {
  if (state_ != nullptr) {
    state_->weak_references.fetch_add(1, std::memory_order_relaxed);
  }
}

WeakTensor::WeakTensor(const WeakTensor& other) : state_(other.state_) {
  if (state_ != nullptr) {
    state_->weak_references.fetch_add(1, std::memory_order_relaxed);
  }
}

WeakTensor::~WeakTensor() {
  if (state_ != nullptr &&
      state_->weak_references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete state_;
  }
}

Tensor WeakTensor::lock() const {
  if (state_ == nullptr) return {};
  int64_t held = state_->references.load(std::memory_order_relaxed);
  while (held > 0 && !state_->references.compare_exchange_weak(
                         held, held + 1, std::memory_order_acquire)) {
  }
  return held > 0 ? Tensor::adopt(state_) : Tensor();
}

}  // namespace distwrap
