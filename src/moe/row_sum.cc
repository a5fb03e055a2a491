#include "moe/row_sum.h"

#include "sdk/half.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace distwrap::moe {
namespace {

// Numbers that are worked on together: their sums stay in the first cache.
constexpr int64_t kBlock = 1024;

template <class T>
T load(const uint8_t* from) {
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}

// How numbers of an element type are read and written.
struct F16 {
  using Stored = uint16_t;
  static float read(uint16_t x) { return dw_sdk::f16_to_f32(x); }
  static uint16_t write(float x) { return dw_sdk::f32_to_f16(x); }
};
struct BF16 {
  using Stored = uint16_t;
  static float read(uint16_t x) { return dw_sdk::bf16_to_f32(x); }
  static uint16_t write(float x) { return dw_sdk::f32_to_bf16(x); }
};
template <class T>
struct Plain {
  using Stored = T;
  static T read(T x) { return x; }
  template <class Sum>
  static T write(Sum x) {
    return static_cast<T>(x);
  }
};

enum class Step { kSet, kAdd, kSetWeighted, kAddWeighted };

template <class Number, class Sum, Step kStep>
void accumulate(Sum* sum, const uint8_t* from, int64_t n, float weight) {
  using Stored = typename Number::Stored;
  constexpr auto kSize = static_cast<int64_t>(sizeof(Stored));
  for (int64_t i = 0; i < n; ++i) {
    Sum value = static_cast<Sum>(Number::read(load<Stored>(from + i * kSize)));
    if constexpr (kStep == Step::kSetWeighted || kStep == Step::kAddWeighted)
      value = static_cast<Sum>(weight) * value;
    if constexpr (kStep == Step::kSet || kStep == Step::kSetWeighted)
      sum[i] = value;
    else
      sum[i] += value;
  }
}

template <class Sum>
using Accumulate = void (*)(Sum*, const uint8_t*, int64_t, float);

template <class Number, class Sum>
Accumulate<Sum> pick(Step step) {
  switch (step) {
    case Step::kSet:
      return accumulate<Number, Sum, Step::kSet>;
    case Step::kAdd:
      return accumulate<Number, Sum, Step::kAdd>;
    case Step::kSetWeighted:
      if constexpr (std::is_floating_point_v<Sum>)
        return accumulate<Number, Sum, Step::kSetWeighted>;
      return nullptr;
    case Step::kAddWeighted:
      if constexpr (std::is_floating_point_v<Sum>)
        return accumulate<Number, Sum, Step::kAddWeighted>;
      return nullptr;
  }
  return nullptr;
}

template <class Sum>
Accumulate<Sum> find(DType dtype, Step step) {
  if constexpr (std::is_same_v<Sum, float>) {
    if (dtype == DType::kF16) return pick<F16, Sum>(step);
    if (dtype == DType::kBF16) return pick<BF16, Sum>(step);
    return pick<Plain<float>, Sum>(step);
  } else {
    if (dtype == DType::kF32) return pick<Plain<float>, Sum>(step);
    return pick<Plain<Sum>, Sum>(step);
  }
}

template <class Number, class Sum>
void write_as(const Sum* sum, uint8_t* to, int64_t n) {
  using Stored = typename Number::Stored;
  for (int64_t i = 0; i < n; ++i) {
    const Stored value = Number::write(sum[i]);
    memcpy(to + i * static_cast<int64_t>(sizeof value), &value, sizeof value);
  }
}

template <class Sum>
void write(const Sum* sum, uint8_t* to, int64_t n, DType dtype) {
  if constexpr (std::is_same_v<Sum, float>) {
    if (dtype == DType::kF16) return write_as<F16>(sum, to, n);
    if (dtype == DType::kBF16) return write_as<BF16>(sum, to, n);
  }
  if (dtype == DType::kF32) {
    if constexpr (std::is_unsigned_v<Sum>) {
      using Signed = std::make_signed_t<Sum>;
      for (int64_t i = 0; i < n; ++i) {
        const float value = static_cast<float>(static_cast<Signed>(sum[i]));
        memcpy(to + i * 4, &value, 4);
      }
      return;
    } else {
      return write_as<Plain<float>>(sum, to, n);
    }
  }
  write_as<Plain<Sum>>(sum, to, n);
}

// The three sums of a block, each empty until its first operand.
template <class Sum>
struct Sums {
  Sum* at[3];
  bool has[3];

  void add(int level, Accumulate<Sum> set, Accumulate<Sum> more,
           const uint8_t* from, int64_t n, float weight) {
    (has[level] ? more : set)(at[level], from, n, weight);
    has[level] = true;
  }
  void fold(int from, int into, int64_t n) {
    if (!has[into]) {
      std::swap(at[from], at[into]);
    } else {
      Sum* const to = at[into];
      const Sum* const part = at[from];
      for (int64_t i = 0; i < n; ++i) to[i] += part[i];
    }
    has[from] = false;
    has[into] = true;
  }
};

template <class Sum>
void run_as(const Program& program, const SumRows& rows, int64_t first,
            int64_t last, uint8_t* scratch) {
  const bool weighted = !rows.weights.empty();
  const Step set = weighted ? Step::kSetWeighted : Step::kSet;
  const Step more = weighted ? Step::kAddWeighted : Step::kAdd;
  const Accumulate<Sum> set_own = find<Sum>(rows.own.dtype, set);
  const Accumulate<Sum> add_own = find<Sum>(rows.own.dtype, more);
  const Accumulate<Sum> set_staged = find<Sum>(rows.staged.dtype, set);
  const Accumulate<Sum> add_staged = find<Sum>(rows.staged.dtype, more);
  const auto own_size = dtype_size(rows.own.dtype);
  const auto staged_size = dtype_size(rows.staged.dtype);
  const auto out_size = dtype_size(rows.out_dtype);
  Sum* const buffers = reinterpret_cast<Sum*>(scratch);
  for (int64_t i = first; i < last; ++i) {
    const auto begin =
        static_cast<size_t>(program.first[static_cast<size_t>(i)]);
    const auto end =
        static_cast<size_t>(program.first[static_cast<size_t>(i) + 1]);
    uint8_t* const out = rows.out + i * rows.out_stride;
    // One term that is not changed is copied.
    if (end - begin == 1 && !weighted && rows.biases.empty()) {
      const Term& term = program.terms[begin];
      const NumberRows& from = term.row < 0 ? rows.own : rows.staged;
      if (from.dtype == rows.out_dtype) {
        memcpy(out,
               from.data + (term.row < 0 ? ~term.row : term.row) * from.stride,
               static_cast<size_t>(rows.width * out_size));
        continue;
      }
    }
    for (int64_t x = 0; x < rows.width; x += kBlock) {
      const int64_t n = std::min(kBlock, rows.width - x);
      Sums<Sum> sums{{buffers, buffers + kBlock, buffers + 2 * kBlock},
                     {false, false, false}};
      for (const NumberRows& bias : rows.biases)
        sums.add(Term::kTotal, find<Sum>(bias.dtype, Step::kSet),
                 find<Sum>(bias.dtype, Step::kAdd),
                 bias.data + i * bias.stride + x * dtype_size(bias.dtype), n,
                 1);
      for (size_t j = begin; j < end; ++j) {
        const Term& term = program.terms[j];
        const float weight = weighted ? rows.weights[j] : 1;
        if (term.row < 0)
          sums.add(term.level, set_own, add_own,
                   rows.own.data + ~term.row * rows.own.stride + x * own_size,
                   n, weight);
        else
          sums.add(term.level, set_staged, add_staged,
                   rows.staged.data + term.row * rows.staged.stride +
                       x * staged_size,
                   n, weight);
        if (term.fold == Term::kNothing) continue;
        if ((term.fold & Term::kRankIntoNode) != 0)
          sums.fold(Term::kRank, Term::kNode, n);
        if ((term.fold & Term::kNodeIntoTotal) != 0)
          sums.fold(Term::kNode, Term::kTotal, n);
      }
      if (!sums.has[Term::kTotal])
        std::fill_n(sums.at[Term::kTotal], n, Sum{0});
      write(sums.at[Term::kTotal], out + x * out_size, n, rows.out_dtype);
    }
  }
}

}  // namespace

bool sums_from(DType in) {
  return in == DType::kF16 || in == DType::kBF16 || in == DType::kF32 ||
         in == DType::kF64 || in == DType::kI32 || in == DType::kI64;
}

bool sums_into(DType in, DType out) {
  return sums_from(in) && (out == in || out == DType::kF32);
}

void RowSum::run(const Program& program, const SumRows& rows, int64_t first,
                 int64_t last) {
  scratch_.resize(3 * kBlock * sizeof(double));
  switch (rows.own.dtype) {
    case DType::kF64:
      return run_as<double>(program, rows, first, last, scratch_.data());
    case DType::kI32:
      return run_as<uint32_t>(program, rows, first, last, scratch_.data());
    case DType::kI64:
      return run_as<uint64_t>(program, rows, first, last, scratch_.data());
    default:
      return run_as<float>(program, rows, first, last, scratch_.data());
  }
}

}  // namespace distwrap::moe
