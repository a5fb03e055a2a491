#include "bench/case.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace distwrap::bench {
namespace {

// Calls `f` with a zero of the element's C++ type.
template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case DType::enumerator:                                            \
    if constexpr (dtype_of<storage> == DType::enumerator) {          \
      return f(storage{});                                           \
    } else {                                                         \
      return;                                                        \
    }
#include "distwrap/abi/dtypes.def"
  }
}

// Alignment of every buffer: a page, so that no contestant meets a luckier one.
constexpr size_t kPage = 4096;

}  // namespace

bool measurable(DType dtype) {
  return dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kBool;
}

bool measurable(ReduceOp reduce) {
  return reduce == ReduceOp::kSum || reduce == ReduceOp::kProduct ||
         reduce == ReduceOp::kMin || reduce == ReduceOp::kMax;
}

void Case::Free::operator()(void* memory) const { std::free(memory); }

Case::Case(const Spec& spec) : spec_(spec) {
  const int64_t ranks = spec.ranks;
  const int64_t size = dtype_size(spec.dtype);
  int64_t count = std::max<int64_t>(1, spec.bytes / size);
  const bool blocks = spec.op == Operation::kAllGather ||
                      spec.op == Operation::kReduceScatter ||
                      spec.op == Operation::kAllToAll;
  block_ = (count + ranks - 1) / ranks;
  if (blocks) count = block_ * ranks;
  in_count_ = spec.op == Operation::kAllGather ? block_ : count;
  out_count_ = spec.op == Operation::kReduceScatter ? block_ : count;
  if (spec.op == Operation::kBarrier) in_count_ = out_count_ = 0;
  if (spec.op == Operation::kSendRecv) active_ = spec.rank < (spec.ranks & ~1);
}

absl::StatusOr<Case> Case::make(const Spec& spec) {
  Case made(spec);
  const auto allocate = [](int64_t bytes) {
    const size_t pages = (static_cast<size_t>(bytes) + kPage - 1) / kPage + 1;
    return Memory(
        static_cast<std::byte*>(std::aligned_alloc(kPage, pages * kPage)));
  };
  made.in_ = allocate(made.in_bytes());
  made.out_ = allocate(made.out_bytes());
  if (made.in_ == nullptr || made.out_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for buffers of ", made.in_bytes(), " and ",
                     made.out_bytes(), " bytes; lower --max"));
  }
  with_type(spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* in = reinterpret_cast<T*>(made.in_.get());
    for (int64_t i = 0; i < made.in_count_; ++i) {
      in[i] = made.value<T>(spec.rank, i);
    }
  });
  made.spoil_output();
  return made;
}

TensorView Case::out() const {
  return {in_place() ? in_.get() : out_.get(), out_count_, spec_.dtype};
}

template <class T>
T Case::value(int rank, int64_t i) const {
  // Products stay powers of two.
  if (reduces(spec_.op) && spec_.reduce == ReduceOp::kProduct) {
    return static_cast<T>(1 + (rank + i) % 2);
  }
  return static_cast<T>((31 * int64_t{rank} + i) % 97);
}

template <class T>
T Case::reduced(int64_t i) const {
  T result = value<T>(0, i);
  for (int rank = 1; rank < spec_.ranks; ++rank) {
    const T next = value<T>(rank, i);
    switch (spec_.reduce) {
      case ReduceOp::kProduct:
        result = static_cast<T>(result * next);
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
      default:
        result = static_cast<T>(result + next);
    }
  }
  return result;
}

template <class T>
T Case::expected(int64_t i) const {
  const int64_t mine = spec_.rank * block_;  // where this rank's block starts
  switch (spec_.op) {
    case Operation::kAllReduce:
      return reduced<T>(i);
    case Operation::kReduceScatter:
      return reduced<T>(mine + i);
    case Operation::kAllGather:
      return value<T>(static_cast<int>(i / block_), i % block_);
    case Operation::kAllToAll:
      return value<T>(static_cast<int>(i / block_), mine + i % block_);
    case Operation::kBroadcast:
      return value<T>(spec_.root, i);
    case Operation::kSendRecv:
      return value<T>(partner(), i);
    case Operation::kBarrier:
      break;
  }
  return T{};
}

void Case::spoil_output() {
  if (in_place()) return;
  with_type(spec_.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(reinterpret_cast<T*>(out_.get()), out_count_,
                static_cast<T>(-1));
  });
}

int64_t Case::wrong() const {
  int64_t count = 0;
  if (!active_) return count;
  with_type(spec_.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* got = static_cast<const T*>(out().data());
    for (int64_t i = 0; i < out_count_; ++i) {
      if (got[i] != expected<T>(i)) ++count;
    }
  });
  return count;
}

}  // namespace distwrap::bench
