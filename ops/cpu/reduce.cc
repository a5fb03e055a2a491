// sum and amax over any dimensions.
//
// The elements of one result are taken in row-major order, in blocks of kBlock;
// element i of a block goes to lane i % lanes, the lanes are joined in halves,
// and blocks are joined pairwise. Where elements of several results lie side by
// side in memory, the same additions are done for many results at once.
#include "cpu/cascade.h"
#include "cpu/convert.h"
#include "cpu/loops.h"
#include "cpu/strided_copy.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace distwrap::cpu {
namespace {

template <class T>
struct Sum {
  static constexpr Op kOp = Op::kAdd;
  static constexpr T kStart = 0;
  static T block(const T* x, int64_t n) {
    if constexpr (std::floating_point<T>) {
      return rows<T>().sum(x, n);
    } else {
      uint64_t sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += static_cast<uint64_t>(x[i]);
      return static_cast<T>(sum);
    }
  }
  static T join(T a, T b) {
    if constexpr (std::floating_point<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<uint64_t>(a) +
                            static_cast<uint64_t>(b));
  }
};

template <class T>
struct Max {
  static constexpr Op kOp = Op::kMaximum;
  static constexpr T kStart = std::floating_point<T>
                                  ? -std::numeric_limits<T>::infinity()
                                  : std::numeric_limits<T>::lowest();
  static T block(const T* x, int64_t n) {
    if constexpr (std::floating_point<T>)
      return rows<T>().max(x, n);
    else
      return *std::max_element(x, x + n);
  }
  static T join(T a, T b) { return a > b || a != a ? a : b; }
};

struct Dim {
  int64_t size, stride;  // in elements
};
using Shape = absl::InlinedVector<Dim, 6>;

int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  for (const Dim& dim : shape) count *= dim.size;
  return count;
}

// The places of a shape in row-major order.
class Places {
 public:
  explicit Places(const Shape& shape)
      : shape_(shape), index_(shape.size(), 0) {}
  int64_t offset() const { return offset_; }
  // Steps on in all dimensions but the last `inner` ones.
  void next(size_t inner = 0) {
    for (size_t d = shape_.size() - inner; d-- > 0;) {
      offset_ += shape_[d].stride;
      if (++index_[d] < shape_[d].size) return;
      offset_ -= shape_[d].stride * shape_[d].size;
      index_[d] = 0;
    }
  }

 private:
  const Shape& shape_;
  absl::InlinedVector<int64_t, 6> index_;
  int64_t offset_ = 0;
};

struct Plan {
  Shape kept, reduced;
  const char* in;
  DType in_type;
  char* out;
  DType out_type;
};

void append(Shape& shape, Dim dim) {
  if (dim.size == 1) return;
  if (!shape.empty() && shape.back().stride == dim.stride * dim.size) {
    shape.back() = {shape.back().size * dim.size, dim.stride};
  } else {
    shape.push_back(dim);
  }
}

// `n` elements that lie `stride` apart as T.
template <class T>
const T* read(DType dtype, const char* in, int64_t stride, int64_t n, T* room) {
  if constexpr (std::floating_point<T>) {
    return read_row(dtype, in, stride, n, room);
  } else {
    if (dtype == dtype_of<T> && (stride == 1 || n <= 1)) {
      return reinterpret_cast<const T*>(in);
    }
    const int64_t size = dtype_size(dtype);
    alignas(8) char part[kBlock * 8];
    if (stride != 1) {
      load_strided(size, part, in, stride, n);
      in = part;
    }
    convert(dtype_of<T>, room, dtype, in, n);
    return room;
  }
}

// Each result by itself.
template <class T, class Kind>
void reduce_rows(const Plan& plan) {
  const int64_t size = dtype_size(plan.in_type);
  const int64_t out_size = dtype_size(plan.out_type);
  const int64_t results = count_of(plan.kept);
  const int64_t length = count_of(plan.reduced);
  const Dim inner = plan.reduced.empty() ? Dim{1, 1} : plan.reduced.back();
  T room[kBlock], piece[kBlock];
  Places result(plan.kept);
  for (int64_t r = 0; r < results; ++r, result.next()) {
    const char* const base = plan.in + result.offset() * size;
    Cascade<T, Kind> cascade;
    if (plan.reduced.size() <= 1) {
      for (int64_t at = 0; at < length; at += kBlock) {
        const int64_t count = std::min(length - at, kBlock);
        cascade.push(
            Kind::block(read(plan.in_type, base + at * inner.stride * size,
                             inner.stride, count, room),
                        count));
      }
    } else {
      // A block is put together from parts of the innermost dimension.
      Places row(plan.reduced);
      int64_t filled = 0, used = 0;
      for (int64_t at = 0; at < length;) {
        const int64_t count =
            std::min({kBlock - filled, inner.size - used, length - at});
        const T* const some = read(
            plan.in_type, base + (row.offset() + used * inner.stride) * size,
            inner.stride, count, piece);
        std::copy_n(some, count, room + filled);
        at += count;
        filled += count;
        used += count;
        if (used == inner.size) {
          used = 0;
          row.next(1);
        }
        if (filled == kBlock || at == length) {
          cascade.push(Kind::block(room, filled));
          filled = 0;
        }
      }
    }
    const T value = cascade.value();
    convert(plan.out_type, plan.out + r * out_size, dtype_of<T>, &value, 1);
  }
}

// Results that lie side by side in memory, kColumns of them at a time.
template <class T, class Kind>
void reduce_columns(const Plan& plan) {
  constexpr int64_t kColumns = 128;
  constexpr int64_t kLanes = 128 / sizeof(T);
  const int64_t size = dtype_size(plan.in_type);
  const int64_t out_size = dtype_size(plan.out_type);
  const int64_t length = count_of(plan.reduced);
  const int64_t width = plan.kept.back().size;
  const int64_t outer = count_of(plan.kept) / width;
  const Loop join = loops().find(Kind::kOp, dtype_of<T>);
  const Number one = Number::of(1, dtype_of<T>);
  const auto add = [&](T* to, const T* from, int64_t n) {
    void* const p[] = {to, to, const_cast<T*>(from)};
    join(p, n, &one);
  };
  std::vector<T> lanes(static_cast<size_t>(kLanes * kColumns));
  std::vector<std::vector<T>> levels;
  T room[kColumns];
  Places result(plan.kept);
  for (int64_t o = 0; o < outer; ++o, result.next(1)) {
    for (int64_t c = 0; c < width; c += kColumns) {
      const int64_t count = std::min(width - c, kColumns);
      const char* const base = plan.in + (result.offset() + c) * size;
      Places row(plan.reduced);
      uint64_t blocks = 0;
      for (int64_t at = 0; at < length; at += kBlock) {
        const int64_t in_block = std::min(length - at, kBlock);
        const int64_t used = std::min(
            kLanes, static_cast<int64_t>(
                        std::bit_ceil(static_cast<uint64_t>(in_block))));
        std::fill_n(lanes.data(), used * kColumns, Kind::kStart);
        for (int64_t i = 0; i < in_block; ++i, row.next()) {
          add(lanes.data() + i % kLanes * kColumns,
              read(plan.in_type, base + row.offset() * size, 1, count, room),
              count);
        }
        for (int64_t half = used / 2; half > 0; half /= 2) {
          for (int64_t lane = 0; lane < half; ++lane)
            add(lanes.data() + lane * kColumns,
                lanes.data() + (lane + half) * kColumns, count);
        }
        // As in Cascade, with a row of results for each of its values.
        size_t level = 0;
        for (uint64_t left = blocks++; (left & 1) != 0; left >>= 1, ++level) {
          add(levels[level].data(), lanes.data(), count);
          std::copy_n(levels[level].data(), count, lanes.data());
        }
        if (level == levels.size()) levels.emplace_back(kColumns);
        std::copy_n(lanes.data(), count, levels[level].data());
      }
      T* total = nullptr;
      for (size_t level = 0; level < levels.size(); ++level) {
        if ((blocks >> level & 1) == 0) continue;
        if (total != nullptr) add(levels[level].data(), total, count);
        total = levels[level].data();
      }
      if (total == nullptr) {
        std::fill_n(room, count, Kind::kStart);
        total = room;
      }
      convert(plan.out_type, plan.out + (o * width + c) * out_size, dtype_of<T>,
              total, count);
    }
  }
}

template <class T, class Kind>
void reduce_as(const Plan& plan) {
  const bool side_by_side = !plan.kept.empty() &&
                            plan.kept.back().stride == 1 &&
                            plan.kept.back().size > 3 && !plan.reduced.empty();
  if (side_by_side) {
    reduce_columns<T, Kind>(plan);
  } else {
    reduce_rows<T, Kind>(plan);
  }
}

template <template <class> class Kind>
void reduce(const Tensor& out, const Tensor& self, uint64_t reduced) {
  if (out.count() == 0) return;
  if (out.count() == self.count()) {
    // Nothing is joined: every reduced extent is 1.
    Dims strides(static_cast<size_t>(self.dims()), 0);
    int64_t step = 1;
    for (int d = self.dims(); d-- > 0; step *= self.size(d))
      strides[static_cast<size_t>(d)] = step;
    absl::StatusOr<Tensor> shaped =
        Tensor::of_storage(out.storage(), out.dtype(), self.sizes(), strides);
    if (shaped.ok()) return copy_converted(*shaped, self);
  }
  Plan plan{.kept = {},
            .reduced = {},
            .in = static_cast<const char*>(self.data()),
            .in_type = self.dtype(),
            .out = static_cast<char*>(out.data()),
            .out_type = out.dtype()};
  for (int d = 0; d < self.dims(); ++d) {
    append((reduced >> d & 1) != 0 ? plan.reduced : plan.kept,
           {self.size(d), self.stride(d)});
  }
  switch (self.dtype()) {
    case DType::kF64:
      return reduce_as<double, Kind<double>>(plan);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return reduce_as<float, Kind<float>>(plan);
    case DType::kU64:
      return reduce_as<uint64_t, Kind<uint64_t>>(plan);
    default:
      return reduce_as<int64_t, Kind<int64_t>>(plan);
  }
}

}  // namespace

absl::StatusOr<Tensor> sum(const Tensor& self, std::optional<Ints> dim,
                           bool keepdim) {
  absl::StatusOr<Tensor> out = outputs::sum(self, dim, keepdim);
  if (!out.ok()) return out;
  const uint64_t reduced = *outputs::reduced_dims("dw::sum", self.dims(), dim);
  reduce<Sum>(*out, self, reduced);
  return out;
}

absl::StatusOr<Tensor> amax(const Tensor& self, std::optional<Ints> dim,
                            bool keepdim) {
  absl::StatusOr<Tensor> out = outputs::amax(self, dim, keepdim);
  if (!out.ok()) return out;
  const uint64_t reduced = *outputs::reduced_dims("dw::amax", self.dims(), dim);
  reduce<Max>(*out, self, reduced);
  return out;
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::sum", {kDense, kCpu}, kernel<&sum>());
  lib.impl("dw::amax", {kDense, kCpu}, kernel<&amax>());
}

}  // namespace distwrap::cpu
