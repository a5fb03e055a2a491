#include "cpu/strided_copy.h"

#include "cpu/convert.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace distwrap::cpu {
namespace {

struct Dim {
  int64_t size, out, in;
};
using Shape = absl::InlinedVector<Dim, 6>;

// The dimensions that matter, the output's largest step first, with neighbours
// joined that both sides continue.
Shape shape_of(absl::Span<const int64_t> sizes,
               absl::Span<const int64_t> out_strides,
               absl::Span<const int64_t> in_strides) {
  Shape shape;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1) {
      shape.push_back({sizes[d], out_strides[d], in_strides[d]});
    }
  }
  std::stable_sort(shape.begin(), shape.end(), [](const Dim& a, const Dim& b) {
    return std::abs(a.out) > std::abs(b.out);
  });
  for (size_t d = shape.size(); d-- > 1;) {
    Dim& outer = shape[d - 1];
    const Dim& inner = shape[d];
    if (outer.out != inner.out * inner.size ||
        outer.in != inner.in * inner.size) {
      continue;
    }
    outer = {outer.size * inner.size, inner.out, inner.in};
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
  }
  return shape;
}

// Copies a rectangle in squares, so that each line of the cache is used up
// before it is left, on both sides.
template <class T>
void copy_plane(T* out, const T* in, const Dim& rows, const Dim& columns) {
  constexpr int64_t kSide = 16;
  for (int64_t r0 = 0; r0 < rows.size; r0 += kSide) {
    const int64_t r1 = std::min(r0 + kSide, rows.size);
    for (int64_t c0 = 0; c0 < columns.size; c0 += kSide) {
      const int64_t c1 = std::min(c0 + kSide, columns.size);
      for (int64_t r = r0; r < r1; ++r) {
        T* const to = out + r * rows.out;
        const T* const from = in + r * rows.in;
        for (int64_t c = c0; c < c1; ++c)
          to[c * columns.out] = from[c * columns.in];
      }
    }
  }
}

template <class T>
void copy_row(T* out, const T* in, const Dim& dim) {
  if (dim.out == 1 && dim.in == 1) {
    std::memcpy(out, in, static_cast<size_t>(dim.size) * sizeof(T));
  } else if (dim.out == 1 && dim.in == 0) {
    std::fill_n(out, dim.size, *in);
  } else {
    for (int64_t i = 0; i < dim.size; ++i) out[i * dim.out] = in[i * dim.in];
  }
}

template <class T>
void copy_all(T* out, const T* in, absl::Span<const Dim> shape) {
  if (shape.empty()) {
    *out = *in;
  } else if (shape.size() == 1) {
    copy_row(out, in, shape[0]);
  } else if (shape.size() == 2 && shape[1].in != 1 && shape[1].in != 0) {
    copy_plane(out, in, shape[0], shape[1]);
  } else {
    for (int64_t i = 0; i < shape[0].size; ++i)
      copy_all(out + i * shape[0].out, in + i * shape[0].in, shape.subspan(1));
  }
}

struct Bytes {
  const char *first, *end;
};

Bytes bytes_of(const Tensor& tensor) {
  int64_t lowest = 0, highest = 0;
  for (int d = 0; d < tensor.dims(); ++d) {
    const int64_t reach = (tensor.size(d) - 1) * tensor.stride(d);
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto* const data = static_cast<const char*>(tensor.data());
  const int64_t size = dtype_size(tensor.dtype());
  return {data + lowest * size, data + (highest + 1) * size};
}

}  // namespace

void strided_copy(int64_t size, absl::Span<const int64_t> sizes, void* out,
                  absl::Span<const int64_t> out_strides, const void* in,
                  absl::Span<const int64_t> in_strides) {
  for (const int64_t extent : sizes) {
    if (extent == 0) return;
  }
  Shape shape = shape_of(sizes, out_strides, in_strides);
  // The dimension in which the input is dense goes next to the innermost one,
  // where squares are copied.
  if (shape.size() > 2 && shape.back().in != 1) {
    for (size_t d = 0; d + 2 < shape.size(); ++d) {
      if (shape[d].in == 1) std::swap(shape[d], shape[shape.size() - 2]);
    }
  }
  switch (size) {
    case 1:
      return copy_all(static_cast<uint8_t*>(out),
                      static_cast<const uint8_t*>(in), shape);
    case 2:
      return copy_all(static_cast<uint16_t*>(out),
                      static_cast<const uint16_t*>(in), shape);
    case 4:
      return copy_all(static_cast<uint32_t*>(out),
                      static_cast<const uint32_t*>(in), shape);
    default:
      return copy_all(static_cast<uint64_t*>(out),
                      static_cast<const uint64_t*>(in), shape);
  }
}

void copy_converted(const Tensor& out, const Tensor& in) {
  if (out.dtype() == in.dtype()) {
    return strided_copy(dtype_size(out.dtype()), out.sizes(), out.data(),
                        out.strides(), in.data(), in.strides());
  }
  if (out.count() == 0) return;
  if (out.is_contiguous() && in.is_contiguous()) {
    return convert(out.dtype(), out.data(), in.dtype(), in.data(), out.count());
  }
  const Shape shape = shape_of(out.sizes(), out.strides(), in.strides());
  const Dim row = shape.empty() ? Dim{1, 1, 1} : shape.back();
  const int64_t out_size = dtype_size(out.dtype());
  const int64_t in_size = dtype_size(in.dtype());
  constexpr int64_t kPart = 512;
  alignas(8) char from[kPart * 8], to[kPart * 8];
  absl::InlinedVector<int64_t, 6> index(shape.size(), 0);
  auto* out_row = static_cast<char*>(out.data());
  const auto* in_row = static_cast<const char*>(in.data());
  for (;;) {
    for (int64_t at = 0; at < row.size; at += kPart) {
      const int64_t count = std::min(row.size - at, kPart);
      load_strided(in_size, from, in_row + at * row.in * in_size, row.in,
                   count);
      convert(out.dtype(), to, in.dtype(), from, count);
      store_strided(out_size, out_row + at * row.out * out_size, row.out, to,
                    count);
    }
    auto d = static_cast<int64_t>(shape.size()) - 2;
    for (; d >= 0; --d) {
      const Dim& dim = shape[static_cast<size_t>(d)];
      out_row += dim.out * out_size;
      in_row += dim.in * in_size;
      if (++index[static_cast<size_t>(d)] < dim.size) break;
      out_row -= dim.out * dim.size * out_size;
      in_row -= dim.in * dim.size * in_size;
      index[static_cast<size_t>(d)] = 0;
    }
    if (d < 0) return;
  }
}

absl::StatusOr<Tensor> copy_of(const Tensor& in) {
  absl::StatusOr<Tensor> out =
      Tensor::empty(in.sizes(), in.dtype(), in.device());
  if (out.ok()) copy_converted(*out, in);
  return out;
}

absl::StatusOr<Tensor> row_major_of(const Tensor& in) {
  if (in.is_contiguous()) return in;
  return copy_of(in);
}

bool share_memory(const Tensor& a, const Tensor& b) {
  if (a.count() == 0 || b.count() == 0) return false;
  const Bytes one = bytes_of(a), other = bytes_of(b);
  return one.first < other.end && other.first < one.end;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

}  // namespace distwrap::cpu
