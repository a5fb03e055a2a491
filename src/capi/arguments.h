// The arguments of an operation, translated from C into C++.
//
// The type of each wrapper states the rule for its argument: `Tensor{out,
// "out"}` must be given, `MaybeTensor{in}` may be NULL, and so on. The first
// bad argument is remembered, and the call is refused before anything starts.
//
// Threads: an object on the stack of one thread. Ownership: all arguments stay
// the caller's during the call.
#ifndef DISTWRAP_SRC_CAPI_ARGUMENTS_H_
#define DISTWRAP_SRC_CAPI_ARGUMENTS_H_

#include "capi/boxes.h"
#include "distwrap/operations.h"

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>

#include <cstdint>
#include <optional>

namespace distwrap::capi {

struct Tensor {
  const distwrap_tensor* tensor;
  const char* name;
};
struct MaybeTensor {
  const distwrap_tensor* tensor;
};
// One tensor for each rank. NULL with a count of 0 on ranks that do not use the
// list.
struct TensorList {
  const distwrap_tensor* const* tensors;
  uint64_t count;
  const char* name;
};
struct Reduction {
  int32_t kind;
};
// Rows for each rank; NULL means no list.
struct MaybeRows {
  const int64_t* rows;
  uint64_t count;
};
struct Rows {
  const int64_t* rows;
  uint64_t count;
  const char* name;
};

using Views = absl::InlinedVector<TensorView, 16>;

// The sizes of the table from DLPack's code and bits to element types.
inline constexpr uint8_t kNoDType = 255, kCodes = 16, kBits = 65;
struct DTypes {
  uint8_t of[kCodes][kBits];
  constexpr DTypes() : of() {
    for (auto& row : of)
      for (uint8_t& dtype : row) dtype = kNoDType;
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  of[code][bits] = index;
#include "distwrap/abi/dtypes.def"
  }
};
inline constexpr DTypes kDTypes{};

// The element type of DLPack's; nothing for one that is unknown.
inline std::optional<DType> known_dtype(dw_dtype given) {
  if (given.lanes != 1 || given.code >= kCodes || given.bits >= kBits)
    return std::nullopt;
  const uint8_t found = kDTypes.of[given.code][given.bits];
  if (found == kNoDType) return std::nullopt;
  return static_cast<DType>(found);
}

// A view as C sees it.
inline distwrap_output output_of(const TensorView& view) {
  return {view.data(),
          view.count(),
          {view.device().type, view.device().id},
          static_cast<int32_t>(view.dtype()),
          0};
}

class Arguments {
 public:
  // The options of a call that gives none.
  explicit Arguments(const char* call) : call_(call) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Called once, before all other arguments. `async` says whether the call
  // returns before the operation has ended.
  void read(const distwrap_op_options* options, bool async) {
    if (options == nullptr && !async) return;
    read_given(options, async);
  }

  TensorView of(const Tensor& argument) {
    if (argument.tensor == nullptr) [[unlikely]] {
      refuse_missing(argument.name);
      return {};
    }
    return view_of(*argument.tensor);
  }
  TensorView of(const MaybeTensor& argument) {
    return argument.tensor == nullptr ? TensorView()
                                      : view_of(*argument.tensor);
  }
  Views of(const TensorList& argument);
  ReduceOp of(const Reduction& argument) {
    // Every reduction except premul_sum: a known kind without a factor.
    if (!has_factor_ && argument.kind >= DW_REDUCE_SUM &&
        argument.kind <= DW_REDUCE_AVG) [[likely]]
      return static_cast<ReduceOp::Kind>(argument.kind);
    return unusual_reduction(argument.kind);
  }
  Peer of(const distwrap_peer& peer) {
    if (peer.numbering == DW_RANK_OF_WORLD) return Peer::global(peer.rank);
    if (peer.numbering == DW_RANK_OF_GROUP) return Peer::group(peer.rank);
    if (peer.numbering != 0) [[unlikely]]
      refuse_numbering(peer.numbering);
    return {};
  }
  Splits of(const MaybeRows& argument) {
    if (argument.rows == nullptr) return {};
    return absl::MakeConstSpan(argument.rows, argument.count);
  }
  absl::Span<const int64_t> of(const Rows& argument);
  int64_t of(int64_t number) { return number; }
  // The group of the options as a handle that holds a reference.
  Group kept_group() const { return group_ ? *group_ : Group(); }
  // Refuses a batch, for calls that cannot be recorded.
  void refuse_batch();

  // OK, or the error of the first bad argument.
  const absl::Status& status() const { return status_; }
  const OpOptions& options() const {
    return options_.has_value() ? *options_ : kDefaultOptions;
  }
  // The batch in which the call is recorded; null when the call runs at once.
  BatchBox* batch() const { return batch_ ? batch_->get() : nullptr; }

 private:
  // The fast path for row-major or flat elements in host memory; the operation
  // itself checks the resulting view.
  TensorView view_of(const distwrap_tensor& tensor) {
    if (tensor.device.device_type == DW_DEVICE_CPU && tensor.ndim == 1 &&
        tensor.strides == nullptr && tensor.byte_offset == 0 &&
        tensor.dtype.lanes == 1 && tensor.shape != nullptr &&
        tensor.dtype.code < kCodes && tensor.dtype.bits < kBits &&
        tensor.shape[0] >= 0) [[likely]] {
      const uint8_t dtype = kDTypes.of[tensor.dtype.code][tensor.dtype.bits];
      const auto size = static_cast<uintptr_t>(tensor.dtype.bits / 8);
      if (dtype != kNoDType && (reinterpret_cast<uintptr_t>(tensor.data) &
                                (size - 1)) == 0) [[likely]]
        return TensorView(tensor.data, tensor.shape[0],
                          static_cast<DType>(dtype));
    }
    return unusual_view(tensor);
  }

  void read_given(const distwrap_op_options* options, bool async);
  void mean_group_of_batch();
  TensorView unusual_view(const distwrap_tensor& tensor);
  ReduceOp unusual_reduction(int32_t kind);
  void refuse_missing(const char* name);
  void refuse_numbering(int32_t numbering);
  void refuse(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  static constexpr distwrap_op_options kNone = {};

  const char* const call_;
  absl::Status status_;
  bool has_factor_ = false;
  // The caller's own struct, or a copy of the known part of a struct of another
  // size.
  const distwrap_op_options* given_ = &kNone;
  distwrap_op_options known_;
  std::optional<OpOptions> options_;
  Held<distwrap_group> group_;
  Held<distwrap_batch> batch_;
};

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_ARGUMENTS_H_
