// Elementwise loops of one variant: included by loops_body.h.
namespace distwrap::cpu::DW_VARIANT {
namespace {

// Arithmetic of integers wraps, so it is done without a sign and, because small
// types are promoted to int, in 32 bits or more.
template <class T>
using Unsigned =
    typename std::conditional_t<(sizeof(T) < 4), std::type_identity<uint32_t>,
                                std::make_unsigned<T>>::type;

struct Neg {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::integral<T>)
      return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(x));
    else
      return -x;
  }
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::unsigned_integral<T>)
      return x;
    else if constexpr (std::integral<T>)
      return x < 0 ? Neg()(x) : x;
    else
      return std::abs(x);
  }
};
struct Sign {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(static_cast<T>(x > T{0}) - static_cast<T>(x < T{0}));
  }
};
struct Relu {
  template <class T>
  T operator()(T x) const {
    return x <= T{0} ? T{0} : x;
  }
};
struct Sqrt {
  template <class T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <class T>
  T operator()(T x) const {
    return T{1} / std::sqrt(x);
  }
};

template <class T, class F>
void unary(void* const* p, int64_t n, const void*) {
  T* const out = static_cast<T*>(p[0]);
  const T* const x = static_cast<const T*>(p[1]);
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = F()(x[i]);
}

struct Mul {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::integral<T>)
      return static_cast<T>(static_cast<Unsigned<T>>(x) *
                            static_cast<Unsigned<T>>(y));
    else
      return x * y;
  }
};
struct Div {
  template <class T>
  T operator()(T x, T y) const {
    return x / y;
  }
};
struct Maximum {
  template <class T>
  T operator()(T x, T y) const {
    return x > y || x != x ? x : y;
  }
};
struct Eq {
  template <class T>
  uint8_t operator()(T x, T y) const {
    return x == y;
  }
};
struct Lt {
  template <class T>
  uint8_t operator()(T x, T y) const {
    return x < y;
  }
};
// Bool: every byte but 0 is true.
struct AndBool {
  uint8_t operator()(uint8_t x, uint8_t y) const {
    return static_cast<uint8_t>((x != 0) & (y != 0));
  }
};
struct OrBool {
  uint8_t operator()(uint8_t x, uint8_t y) const {
    return static_cast<uint8_t>((x != 0) | (y != 0));
  }
};
struct EqBool {
  uint8_t operator()(uint8_t x, uint8_t y) const {
    return (x != 0) == (y != 0);
  }
};
struct LtBool {
  uint8_t operator()(uint8_t x, uint8_t y) const {
    return static_cast<uint8_t>((x == 0) & (y != 0));
  }
};

template <class T, class Result, class F>
void binary(void* const* p, int64_t n, const void*) {
  auto* const out = static_cast<Result*>(p[0]);
  const T* const x = static_cast<const T*>(p[1]);
  const T* const y = static_cast<const T*>(p[2]);
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = F()(x[i], y[i]);
}

template <class T>
T number_of(const void* params) {
  T value;
  std::memcpy(&value, params, sizeof value);
  return value;
}

template <class T>
void add(void* const* p, int64_t n, const void* params) {
  T* const out = static_cast<T*>(p[0]);
  const T* const x = static_cast<const T*>(p[1]);
  const T* const y = static_cast<const T*>(p[2]);
  const T alpha = number_of<T>(params);
  if constexpr (std::integral<T>) {
    DW_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(static_cast<Unsigned<T>>(x[i]) +
                              static_cast<Unsigned<T>>(alpha) *
                                  static_cast<Unsigned<T>>(y[i]));
  } else {
    DW_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + alpha * y[i];
  }
}

void add_bool(void* const* p, int64_t n, const void* params) {
  if (number_of<uint8_t>(params) != 0)
    return binary<uint8_t, uint8_t, OrBool>(p, n, params);
  auto* const out = static_cast<uint8_t*>(p[0]);
  const auto* const x = static_cast<const uint8_t*>(p[1]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] != 0;
}

// T stands for any type of its size.
template <class T>
void where(void* const* p, int64_t n, const void*) {
  T* const out = static_cast<T*>(p[0]);
  const auto* const condition = static_cast<const uint8_t*>(p[1]);
  const T* const x = static_cast<const T*>(p[2]);
  const T* const y = static_cast<const T*>(p[3]);
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = condition[i] != 0 ? x[i] : y[i];
}

template <class T>
void adamw(void* const* p, int64_t n, const void* params) {
  T* const self = static_cast<T*>(p[0]);
  T* const mean = static_cast<T*>(p[1]);
  T* const variance = static_cast<T*>(p[2]);
  const T* const grad = static_cast<const T*>(p[3]);
  const auto& step = *static_cast<const AdamwParams*>(params);
  const T decay = static_cast<T>(step.decay);
  const T beta1 = static_cast<T>(step.beta1);
  const T beta2 = static_cast<T>(step.beta2);
  const T rest1 = static_cast<T>(1 - step.beta1);
  const T rest2 = static_cast<T>(1 - step.beta2);
  const T size = static_cast<T>(step.step_size);
  const T correction = static_cast<T>(step.correction);
  const T eps = static_cast<T>(step.eps);
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T m = beta1 * mean[i] + rest1 * grad[i];
    const T v = beta2 * variance[i] + rest2 * (grad[i] * grad[i]);
    mean[i] = m;
    variance[i] = v;
    self[i] = self[i] * decay - size * (m / (std::sqrt(v) * correction + eps));
  }
}

}  // namespace
}  // namespace distwrap::cpu::DW_VARIANT
