#include "bench/case.h"

#include "bench/element.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

namespace distwrap::bench {
namespace {

// Every buffer begins at a page, so that all contestants have equal alignment.
constexpr size_t kPage = 4096;
// The bytes before and after an output that no contestant may write.
constexpr size_t kGuard = 64;
constexpr std::byte kGuardValue{0xA5};

// The piece that contains element `i`, and the element's place in it.
struct Piece {
  size_t rank;
  int64_t offset;
};
Piece piece_of(const std::vector<int64_t>& starts, int64_t i) {
  const auto next = std::upper_bound(starts.begin(), starts.end(), i);
  const auto rank = static_cast<size_t>(next - starts.begin()) - 1;
  return {rank, i - starts[rank]};
}

}  // namespace

bool measurable(DType dtype) {
  return dtype != DType::kBool && dtype != DType::kF8E4M3FN &&
         dtype != DType::kF8E5M2;
}

bool measurable(ReduceOp::Kind reduce) {
  return reduce == ReduceOp::kSum || reduce == ReduceOp::kProduct ||
         reduce == ReduceOp::kMin || reduce == ReduceOp::kMax;
}

Case::Case(const Spec& spec) : spec_(spec), layout_(layout_of(spec)) {
  if (spec.op == Operation::kSendRecv || spec.op == Operation::kWinSignal)
    active_ = spec.rank < (spec.ranks & ~1);
}

absl::StatusOr<Case> Case::make(const Spec& spec) {
  Case made(spec);
  const auto allocate = [](int64_t bytes) {
    // A page of guard bytes before the output, at least one byte less after it.
    return page_aligned(static_cast<size_t>(bytes) + 2 * kPage);
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
    auto* in = static_cast<T*>(made.in().data());
    for (int64_t i = 0; i < made.layout_.in_count; ++i) {
      in[i] = made.value<T>(spec.rank, i);
    }
  });
  std::byte* const out = made.output();
  std::fill_n(out - kGuard, kGuard, kGuardValue);
  std::fill_n(out + made.out_bytes(), kGuard, kGuardValue);
  made.spoil_output();
  return made;
}

std::byte* Case::output() const { return out_.get() + kPage; }

TensorView Case::in() const {
  return {in_.get() + kPage, layout_.in_count, spec_.dtype};
}

TensorView Case::out() const {
  return {in_place() ? in_.get() + kPage : output(), layout_.out_count,
          spec_.dtype};
}

template <class T>
T Case::value(int rank, int64_t i) const {
  // Products stay powers of two.
  if (reduces(spec_.op) && spec_.reduce == ReduceOp::kProduct) {
    return static_cast<T>(1 + (rank + i) % 2);
  }
  // Sums stay exact in whatever order a contestant adds and rounds.
  const int64_t values =
      std::clamp<int64_t>(kLargestExact<T> / spec_.ranks, 2, 97);
  return static_cast<T>((31 * int64_t{rank} + i) % values);
}

template <class T>
T Case::reduced(int64_t i, int end) const {
  T result = value<T>(0, i);
  for (int rank = 1; rank < end; ++rank) {
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
  const auto me = static_cast<size_t>(spec_.rank);
  const int64_t block = layout_.block;
  switch (spec_.op) {
    case Operation::kAllReduce:
    case Operation::kReduce:
      return reduced<T>(i, spec_.ranks);
    case Operation::kReduceScatter:
      return reduced<T>(spec_.rank * block + i, spec_.ranks);
    case Operation::kReduceScatterV:
      return reduced<T>(layout_.in_starts[me] + i, spec_.ranks);
    case Operation::kScan:
      return reduced<T>(i, spec_.rank + 1);
    case Operation::kExscan:
      // No rank precedes rank 0, so its output keeps its contents.
      return spec_.rank == 0 ? static_cast<T>(-1) : reduced<T>(i, spec_.rank);
    case Operation::kAllGather:
    case Operation::kGather:
      return value<T>(static_cast<int>(i / block), i % block);
    case Operation::kAllGatherV:
    case Operation::kGatherV: {
      const Piece piece = piece_of(layout_.out_starts, i);
      return value<T>(static_cast<int>(piece.rank), piece.offset);
    }
    case Operation::kScatter:
      return value<T>(spec_.root, spec_.rank * block + i);
    case Operation::kScatterV:
      return value<T>(spec_.root, layout_.in_starts[me] + i);
    case Operation::kAllToAll:
      return value<T>(static_cast<int>(i / block),
                      spec_.rank * block + i % block);
    case Operation::kAllToAllV: {
      const Piece piece = piece_of(layout_.out_starts, i);
      const auto& row = layout_.matrix[piece.rank];
      const int64_t start =
          std::accumulate(row.begin(), row.begin() + spec_.rank, int64_t{0});
      return value<T>(static_cast<int>(piece.rank), start + piece.offset);
    }
    case Operation::kBroadcast:
      return value<T>(spec_.root, i);
    case Operation::kSendRecv:
    case Operation::kWinSignal:
      return value<T>(partner(), i);
    case Operation::kRing:
    case Operation::kWinPut:
    case Operation::kWinPutRate:
    case Operation::kWinGet:
    case Operation::kWinFetchAdd:
      return value<T>(left(), i);
    case Operation::kBarrier:
      break;
  }
  return T{};
}

void Case::spoil_output() {
  if (in_place()) return;
  with_type(spec_.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(reinterpret_cast<T*>(output()), layout_.out_count,
                static_cast<T>(-1));
  });
}

int64_t Case::broken_guards() const {
  const std::byte* const before = output() - kGuard;
  const std::byte* const after = output() + out_bytes();
  const auto written = [](std::byte byte) { return byte != kGuardValue; };
  return std::count_if(before, before + kGuard, written) +
         std::count_if(after, after + kGuard, written);
}

int64_t Case::wrong() const {
  if (!active_) return 0;
  int64_t count = broken_guards();
  with_type(spec_.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* got = static_cast<const T*>(out().data());
    for (int64_t i = 0; i < layout_.out_count; ++i) {
      if (got[i] != expected<T>(i)) ++count;
    }
    if (in_place()) return;
    const auto* given = static_cast<const T*>(in().data());
    for (int64_t i = 0; i < layout_.in_count; ++i) {
      if (given[i] != value<T>(spec_.rank, i)) ++count;
    }
  });
  return count;
}

}  // namespace distwrap::bench
