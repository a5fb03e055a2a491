#include "mesh/wire_form.h"

#include "base/error.h"
#include "layout/steps.h"
#include "sdk/half.h"

#include <absl/container/inlined_vector.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace distwrap::mesh {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}
bool is_fp8(DType dtype) {
  return dtype == DType::kF8E4M3FN || dtype == DType::kF8E5M2;
}
bool is_integer(DType dtype) { return !is_float(dtype) && !is_fp8(dtype); }

absl::Status refuse(DType dtype, std::string what, std::string next_step) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = "redistribute",
                           .actual = std::string(dtype_name(dtype)),
                           .next_step = std::move(next_step)});
}

// Calls f(element, i) with the address of each element in row-major order.
template <class F>
void each_element(const LocalTensor& part, size_t size, int64_t count,
                  const F& f) {
  if (part.strides.empty()) {
    for (int64_t i = 0; i < count; ++i)
      f(part.data + static_cast<size_t>(i) * size, i);
    return;
  }
  const size_t dims = part.shape.size();
  absl::InlinedVector<int64_t, 6> at(dims, 0);
  const auto step = static_cast<std::ptrdiff_t>(size);
  std::byte* element = part.data;
  for (int64_t i = 0; i < count; ++i) {
    f(element, i);
    for (size_t d = dims; d-- > 0;) {
      element += part.strides[d] * step;
      if (++at[d] < part.shape[d]) break;
      element -= part.shape[d] * part.strides[d] * step;
      at[d] = 0;
    }
  }
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// A float of 16 bits, as a type of its own.
template <float (*kLoad)(uint16_t), uint16_t (*kStore)(float)>
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(kStore(value)) {}
  explicit operator float() const { return kLoad(bits); }
};
using F16 = Half<dw_sdk::f16_to_f32, dw_sdk::f32_to_f16>;
using BF16 = Half<dw_sdk::bf16_to_f32, dw_sdk::f32_to_bf16>;

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_arithmetic_v<To> && std::is_arithmetic_v<From>) {
    return static_cast<To>(value);
  } else {
    // f32 holds every 16-bit float, but f64 is rounded to 16 bits twice.
    return static_cast<To>(static_cast<float>(value));
  }
}

// Calls f with a value of the C++ type of the elements.
template <class F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF64:
      return f(double());
    case DType::kF32:
      return f(float());
    case DType::kF16:
      return f(F16());
    case DType::kBF16:
      return f(BF16());
    case DType::kI64:
      return f(int64_t());
    case DType::kU64:
      return f(uint64_t());
    case DType::kI32:
      return f(int32_t());
    case DType::kU32:
      return f(uint32_t());
    case DType::kI16:
      return f(int16_t());
    case DType::kU16:
      return f(uint16_t());
    case DType::kI8:
      return f(int8_t());
    case DType::kU8:
    case DType::kBool:
      return f(uint8_t());
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      return;  // 8-bit floats only move
  }
}

// Copies elements unchanged, to packed memory or from there.
template <bool kIn, size_t kSize>
void copy_as(std::byte* packed, const LocalTensor& part, int64_t count) {
  each_element(part, kSize, count, [&](std::byte* element, int64_t i) {
    std::byte* const place = packed + static_cast<size_t>(i) * kSize;
    std::memcpy(kIn ? place : element, kIn ? element : place, kSize);
  });
}
template <bool kIn>
void copy(std::byte* packed, const LocalTensor& part, size_t size,
          int64_t count) {
  switch (size) {
    case 1:
      return copy_as<kIn, 1>(packed, part, count);
    case 2:
      return copy_as<kIn, 2>(packed, part, count);
    case 4:
      return copy_as<kIn, 4>(packed, part, count);
    default:
      return copy_as<kIn, 8>(packed, part, count);
  }
}

// The quotient of (n * quotients + remainders) / n, toward zero.
template <class T>
T joined(T quotients, int64_t remainders, int64_t n) {
  int64_t more = remainders / n, rest = remainders % n;
  if (rest < 0) {
    --more;
    rest += n;
  }
  // A sum beside the average may wrap.
  const auto floor = static_cast<T>(static_cast<uint64_t>(quotients) +
                                    static_cast<uint64_t>(more));
  if constexpr (std::is_signed_v<T>)
    if (floor < 0 && rest != 0) return floor + 1;
  return floor;
}

}  // namespace

absl::StatusOr<WireForm> WireForm::make(const Plan& plan, DType dtype,
                                        std::optional<DType> wire) {
  WireForm form;
  form.outside_ = form.inside_ = dtype;
  bool sends = false, averages = false;
  for (const PlanStep& step : plan.steps()) {
    sends = sends || !step.axes.empty();
    const bool reduces = step.kind == PlanStep::Kind::kReduceScatter ||
                         step.kind == PlanStep::Kind::kAllReduce;
    if (reduces && step.op == PartialOp::kAvg) {
      averages = true;
      form.divisor_ *= layout::group_size(*step.to, step.axes);
    } else if (step.kind == PlanStep::Kind::kDivide) {
      averages = true;
      form.divisor_ *= step.divisor;
    } else if (reduces && step.op == PartialOp::kNorm) {
      form.norm_ = step.norm;
    }
  }
  if (form.norm_ != 0 && !is_float(dtype))
    return refuse(dtype, "a norm needs floats",
                  "compute the norm in f32 or f64");
  const absl::StatusOr<WireForm> as_wire = cast(dtype, wire.value_or(dtype));
  if (!as_wire.ok()) return as_wire.status();
  if (sends) {
    form.kind_ = as_wire->kind_;
    form.inside_ = as_wire->inside_;
  }
  if (form.norm_ != 0) {
    // A power of a value may be beyond its type.
    form.kind_ = Kind::kPowers;
    form.inside_ = DType::kF64;
  } else if (averages && is_integer(dtype)) {
    form.inside_ = DType::kI64;
    // Divided once, at the end: after each of several steps it would be cut off
    // several times.
    const bool is_wide = dtype_size(dtype) == 8;
    form.kind_ = is_wide ? Kind::kSplit : Kind::kSummed;
    form.words_ = is_wide ? 2 : 1;
  }
  return form;
}

absl::StatusOr<WireForm> WireForm::cast(DType dtype, DType wire) {
  if (wire != dtype && (!is_float(dtype) || !is_float(wire)))
    return refuse(dtype,
                  absl::StrCat("only floats travel as another type, here as ",
                               dtype_name(wire)),
                  "leave wire_dtype unset");
  WireForm form;
  form.outside_ = dtype;
  form.inside_ = wire;
  if (wire != dtype) form.kind_ = Kind::kCast;
  return form;
}

void WireForm::enter(std::byte* to, const LocalTensor& from,
                     int64_t count) const {
  const auto size = static_cast<size_t>(dtype_size(outside_));
  if (kind_ == Kind::kPlain) return copy<true>(to, from, size, count);
  with_type(outside_, [&](auto out) {
    using Out = decltype(out);
    if constexpr (sizeof(Out) == 8 && std::is_integral_v<Out>) {
      if (kind_ == Kind::kSplit)
        return each_element(from, size, count, [&](std::byte* one, int64_t i) {
          const Out value = load<Out>(one), n = static_cast<Out>(divisor_);
          std::byte* const place = to + static_cast<size_t>(i) * 16;
          store(place, static_cast<int64_t>(value / n));
          store(place + 8, static_cast<int64_t>(value % n));
        });
    }
    with_type(inside_, [&](auto in) {
      using In = decltype(in);
      each_element(from, size, count, [&](std::byte* one, int64_t i) {
        In value = converted<In>(load<Out>(one));
        if constexpr (std::is_same_v<In, double>)
          if (kind_ == Kind::kPowers) value = std::pow(std::fabs(value), norm_);
        store(to + static_cast<size_t>(i) * sizeof(In), value);
      });
    });
  });
}

void WireForm::leave(const LocalTensor& to, const std::byte* from,
                     int64_t count) const {
  const auto size = static_cast<size_t>(dtype_size(outside_));
  if (kind_ == Kind::kPlain)
    return copy<false>(const_cast<std::byte*>(from), to, size, count);
  with_type(outside_, [&](auto out) {
    using Out = decltype(out);
    if constexpr (sizeof(Out) == 8 && std::is_integral_v<Out>) {
      if (kind_ == Kind::kSplit)
        return each_element(to, size, count, [&](std::byte* one, int64_t i) {
          const std::byte* const place = from + static_cast<size_t>(i) * 16;
          store(one, joined(static_cast<Out>(load<int64_t>(place)),
                            load<int64_t>(place + 8), divisor_));
        });
    }
    with_type(inside_, [&](auto in) {
      using In = decltype(in);
      each_element(to, size, count, [&](std::byte* one, int64_t i) {
        In value = load<In>(from + static_cast<size_t>(i) * sizeof(In));
        if constexpr (std::is_same_v<In, double>)
          if (kind_ == Kind::kPowers) value = std::pow(value, 1 / norm_);
        if constexpr (std::is_same_v<In, int64_t>)
          if (kind_ == Kind::kSummed) value /= divisor_;
        store(one, converted<Out>(value));
      });
    });
  });
}

}  // namespace distwrap::mesh
