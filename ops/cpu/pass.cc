#include "cpu/pass.h"

#include "cpu/convert.h"

#include <algorithm>
#include <cstdlib>

namespace distwrap::cpu {
namespace {

// Elements of a buffer.
constexpr int64_t kPart = 512;

}  // namespace

// The dimensions of a pass, from the outermost on, and each operand's strides
// in bytes.
struct Pass::Walk {
  int dims = 0;
  int64_t sizes[kMostDims];
  int64_t strides[kMostDims][kMostOperands];

  // Whether dimension `inner` continues dimension `inner - 1`.
  bool joins(int inner, int operands) const {
    for (int k = 0; k < operands; ++k) {
      if (strides[inner - 1][k] != strides[inner][k] * sizes[inner])
        return false;
    }
    return true;
  }
  void swap(int a, int b, int operands) {
    std::swap(sizes[a], sizes[b]);
    for (int k = 0; k < operands; ++k) std::swap(strides[a][k], strides[b][k]);
  }
};

void Pass::add(const Tensor& tensor, uint8_t use) {
  operand_[operands_++] = {.data = static_cast<char*>(tensor.data()),
                           .strides = tensor.strides().data(),
                           .dims = tensor.dims(),
                           .sizes = tensor.sizes().data(),
                           .dtype = tensor.dtype(),
                           .use = use,
                           .contiguous = tensor.is_contiguous(),
                           .count = tensor.count()};
}

void Pass::add_memory(char* data, const int64_t* strides, DType dtype,
                      bool written) {
  operand_[operands_++] = {.data = data,
                           .strides = strides,
                           .dims = static_cast<int>(sizes_.size()),
                           .sizes = sizes_.data(),
                           .dtype = dtype,
                           .use = written ? kWritten : kRead,
                           .contiguous = false,
                           .count = 0};
}

void Pass::run(Loop loop, const void* params) {
  int64_t count = 1;
  for (const int64_t size : sizes_) count *= size;
  if (count == 0) return;
  bool direct = true;
  char* data[kMostOperands];
  for (int k = 0; k < operands_; ++k) {
    const Operand& operand = operand_[k];
    data[k] = operand.data;
    direct &= operand.contiguous && operand.count == count &&
              !(widen_ && is_half(operand.dtype));
  }
  if (direct) {
    return loop(reinterpret_cast<void* const*>(data), count, params);
  }

  // The dimensions that matter, sorted by the first operand's steps.
  Walk walk;
  const int dims = static_cast<int>(sizes_.size());
  for (int d = 0; d < dims; ++d) {
    if (sizes_[static_cast<size_t>(d)] == 1) continue;
    const int at = walk.dims++;
    walk.sizes[at] = sizes_[static_cast<size_t>(d)];
    for (int k = 0; k < operands_; ++k) {
      const Operand& operand = operand_[k];
      const int own = d - (dims - operand.dims);
      walk.strides[at][k] =
          own < 0 || operand.sizes[own] == 1
              ? 0
              : operand.strides[own] * dtype_size(operand.dtype);
    }
    for (int i = at; i > 0 && std::abs(walk.strides[i - 1][0]) <
                                  std::abs(walk.strides[i][0]);
         --i) {
      walk.swap(i - 1, i, operands_);
    }
  }
  // Joins neighbours, from the innermost on.
  for (int d = walk.dims - 1; d > 0; --d) {
    if (!walk.joins(d, operands_)) continue;
    walk.sizes[d - 1] *= walk.sizes[d];
    for (int k = 0; k < operands_; ++k)
      walk.strides[d - 1][k] = walk.strides[d][k];
    for (int i = d; i + 1 < walk.dims; ++i) {
      walk.sizes[i] = walk.sizes[i + 1];
      for (int k = 0; k < operands_; ++k)
        walk.strides[i][k] = walk.strides[i + 1][k];
    }
    --walk.dims;
  }
  if (walk.dims == 0) {
    walk.dims = 1;
    walk.sizes[0] = 1;
    for (int k = 0; k < operands_; ++k)
      walk.strides[0][k] = dtype_size(operand_[k].dtype);
  }

  int64_t index[kMostDims] = {};
  for (;;) {
    run_row(walk, loop, params, data);
    int d = walk.dims - 2;
    for (; d >= 0; --d) {
      for (int k = 0; k < operands_; ++k) data[k] += walk.strides[d][k];
      if (++index[d] < walk.sizes[d]) break;
      for (int k = 0; k < operands_; ++k)
        data[k] -= walk.strides[d][k] * walk.sizes[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// One run of the innermost dimension.
void Pass::run_row(const Walk& walk, Loop loop, const void* params,
                   char* const* data) {
  const int inner = walk.dims - 1;
  const int64_t n = walk.sizes[inner];
  const int64_t* const strides = walk.strides[inner];
  bool direct[kMostOperands];
  bool all_direct = true;
  for (int k = 0; k < operands_; ++k) {
    direct[k] = strides[k] == dtype_size(operand_[k].dtype) &&
                !(widen_ && is_half(operand_[k].dtype));
    all_direct &= direct[k];
  }
  if (all_direct) {
    return loop(reinterpret_cast<void* const*>(data), n, params);
  }

  alignas(64) char buffer[kMostOperands][kPart * 8];
  void* p[kMostOperands];
  uint16_t halves[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = std::min(n - at, kPart);
    for (int k = 0; k < operands_; ++k) {
      const Operand& operand = operand_[k];
      char* const from = data[k] + at * strides[k];
      if (direct[k]) {
        p[k] = from;
        continue;
      }
      p[k] = buffer[k];
      if ((operand.use & kRead) == 0) continue;
      const int64_t size = dtype_size(operand.dtype);
      const bool half = widen_ && is_half(operand.dtype);
      if (strides[k] == 0) {
        if (at > 0) continue;  // the repeated element is there already
        char element[8];
        convert(half ? DType::kF32 : operand.dtype, element, operand.dtype,
                from, 1);
        repeat(half ? int64_t{sizeof(float)} : size, buffer[k], element, count);
      } else if (half) {
        const void* some = from;
        if (strides[k] != size) {
          load_strided(size, halves, from, strides[k] / size, count);
          some = halves;
        }
        convert(DType::kF32, buffer[k], operand.dtype, some, count);
      } else {
        load_strided(size, buffer[k], from, strides[k] / size, count);
      }
    }
    loop(p, count, params);
    for (int k = 0; k < operands_; ++k) {
      const Operand& operand = operand_[k];
      if ((operand.use & kWritten) == 0 || direct[k]) continue;
      char* const to = data[k] + at * strides[k];
      const int64_t size = dtype_size(operand.dtype);
      const void* result = buffer[k];
      if (widen_ && is_half(operand.dtype)) {
        void* const narrowed =
            strides[k] == size ? static_cast<void*>(to) : halves;
        convert(operand.dtype, narrowed, DType::kF32, buffer[k], count);
        if (strides[k] == size) continue;
        result = halves;
      }
      store_strided(size, to, strides[k] / size, result, count);
    }
  }
}

}  // namespace distwrap::cpu
