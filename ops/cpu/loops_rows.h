// Reductions and rows of one variant: included by loops_body.h.
namespace distwrap::cpu::DW_VARIANT {
namespace {

// Element i of a block goes to lane i % kLanes; then lanes are joined in
// halves. All variants have the same number of lanes, in registers of their
// own size.
inline constexpr int64_t kLaneBytes = 128;

template <class T>
struct Lanes {
  static constexpr int64_t kCount = kLaneBytes / sizeof(T);
  static constexpr int64_t kEach = DW_VARIANT_BYTES / sizeof(T);
  static constexpr int64_t kRegisters = kCount / kEach;
  typedef T Register __attribute__((vector_size(DW_VARIANT_BYTES)));

  Register values[kRegisters];

  explicit Lanes(T start) {
    for (int64_t r = 0; r < kRegisters; ++r) values[r] = Register{} + start;
  }

  static Register load(const T* from) {
    Register value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  // Takes in n elements: join(lane, element) of registers and of numbers.
  // `map` makes a register or a number from those of the inputs.
  template <class Map, class Join>
  T reduce(int64_t n, const Map& map, const Join& join) {
    int64_t i = 0;
    for (; i + kCount <= n; i += kCount) {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRegisters; ++r)
        values[r] = join(values[r], map.many(i + r * kEach));
    }
    T lanes[kCount];
    std::memcpy(lanes, values, sizeof lanes);
    for (int64_t lane = 0; i < n; ++i, ++lane)
      lanes[lane] = join(lanes[lane], map.one(i));
    for (int64_t half = kCount / 2; half > 0; half /= 2)
      for (int64_t lane = 0; lane < half; ++lane)
        lanes[lane] = join(lanes[lane], lanes[lane + half]);
    return lanes[0];
  }
};

struct Plus {
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
};
struct Larger {
  template <class V>
  V operator()(V a, V b) const {
    if constexpr (std::floating_point<V>)
      return a > b || a != a ? a : b;
    else
      return ((a > b) | (a != a)) ? a : b;
  }
};

template <class T>
struct Itself {
  const T* x;
  typename Lanes<T>::Register many(int64_t i) const {
    return Lanes<T>::load(x + i);
  }
  T one(int64_t i) const { return x[i]; }
};
template <class T>
struct Product {
  const T *x, *y;
  typename Lanes<T>::Register many(int64_t i) const {
    return Lanes<T>::load(x + i) * Lanes<T>::load(y + i);
  }
  T one(int64_t i) const { return x[i] * y[i]; }
};
template <class T>
struct Square {
  const T* x;
  T mean;
  typename Lanes<T>::Register many(int64_t i) const {
    const typename Lanes<T>::Register d = Lanes<T>::load(x + i) - mean;
    return d * d;
  }
  T one(int64_t i) const { return (x[i] - mean) * (x[i] - mean); }
};

template <class T>
T sum(const T* x, int64_t n) {
  return Lanes<T>(T{0}).reduce(n, Itself<T>{x}, Plus());
}
template <class T>
T dot(const T* x, const T* y, int64_t n) {
  return Lanes<T>(T{0}).reduce(n, Product<T>{x, y}, Plus());
}
template <class T>
T squares(const T* x, T mean, int64_t n) {
  return Lanes<T>(T{0}).reduce(n, Square<T>{x, mean}, Plus());
}
template <class T>
T max(const T* x, int64_t n) {
  return Lanes<T>(x[0]).reduce(n, Itself<T>{x}, Larger());
}

template <class T>
void scale(T* out, const T* x, T factor, int64_t n) {
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}
template <class T>
void shift(T* out, const T* x, T a, T b, int64_t n) {
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - a) - b;
}
template <class T>
void normalize(T* out, const T* x, const T* weight, const T* bias, T mean,
               T factor, int64_t n) {
  if (weight != nullptr && bias != nullptr) {
    DW_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      out[i] = (x[i] - mean) * factor * weight[i] + bias[i];
  } else if (weight != nullptr) {
    DW_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * factor * weight[i];
  } else if (bias != nullptr) {
    DW_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * factor + bias[i];
  } else {
    DW_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * factor;
  }
}
template <class T>
void project(T* out, const T* x, const T* y, T a, T b, T factor, int64_t n) {
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - a - y[i] * b) * factor;
}
template <class T>
void shift_mul(T* out, const T* x, const T* y, T a, int64_t n) {
  DW_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - a) * y[i];
}

template <class T>
constexpr Rows<T> rows_of() {
  return {&sum<T>,   &dot<T>,       &squares<T>, &max<T>,      &scale<T>,
          &shift<T>, &normalize<T>, &project<T>, &shift_mul<T>};
}

}  // namespace
}  // namespace distwrap::cpu::DW_VARIANT
