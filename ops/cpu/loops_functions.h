// Loops of one variant that call elementary functions: included by
// loops_body.h.
namespace distwrap::cpu::DW_VARIANT {
namespace {

// Parts of this size stay in the first-level cache between two passes.
inline constexpr int64_t kPart = 512;

template <class T, typename Functions<T>::Function Functions<T>::*kFunction>
void function(void* const* p, int64_t n, const void*) {
  (functions<T>().*kFunction)(static_cast<T*>(p[0]),
                              static_cast<const T*>(p[1]), n);
}

template <class T>
void exp(void* const* p, int64_t n, const void*) {
  functions<T>().exp(static_cast<T*>(p[0]), static_cast<const T*>(p[1]), T{0},
                     n);
}

// 1 / (1 + exp(-x)) of at most kPart elements.
template <class T>
void sigmoid_part(T* out, const T* x, int64_t n) {
  T e[kPart];
  for (int64_t i = 0; i < n; ++i) e[i] = -x[i];
  functions<T>().exp(e, e, T{0}, n);
  for (int64_t i = 0; i < n; ++i) out[i] = T{1} / (T{1} + e[i]);
}

// Phi(x), the normal distribution: (1 + erf(x / sqrt(2))) / 2 of at most kPart
// elements.
void normal_part(double* out, const double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * 0.70710678118654752440;
  functions<double>().erf(out, out, n);
  for (int64_t i = 0; i < n; ++i) out[i] = 0.5 * (1.0 + out[i]);
}

// Four times as fast as by erf, and exact for large negative numbers, too,
// where 1 + erf cancels. erfc(z) = t * exp(-z^2 + p(t)) with t = 2 / (2 + z)
// has a relative error below 1.2e-7; p is the polynomial of Press et al.,
// Numerical Recipes, 1992, 6.2.
void normal_part(float* out, const float* x, int64_t n) {
  float t[kPart], e[kPart];
  for (int64_t i = 0; i < n; ++i) {
    const float z = std::abs(x[i]) * 0.70710678f;
    const float u = 1.0f / (1.0f + 0.5f * z);
    float p = 0.17087277f;
    p = p * u - 0.82215223f;
    p = p * u + 1.48851587f;
    p = p * u - 1.13520398f;
    p = p * u + 0.27886807f;
    p = p * u - 0.18628806f;
    p = p * u + 0.09678418f;
    p = p * u + 0.37409196f;
    p = p * u + 1.00002368f;
    p = p * u - 1.26551223f;
    t[i] = u;
    e[i] = p - z * z;
  }
  functions<float>().exp(e, e, 0.0f, n);
  for (int64_t i = 0; i < n; ++i) {
    const float below = 0.5f * t[i] * e[i];
    out[i] = x[i] > 0 ? 1.0f - below : below;
  }
}

template <class T>
void sigmoid(void* const* p, int64_t n, const void*) {
  T* const out = static_cast<T*>(p[0]);
  const T* const x = static_cast<const T*>(p[1]);
  for (int64_t at = 0; at < n; at += kPart)
    sigmoid_part(out + at, x + at, n - at < kPart ? n - at : kPart);
}

template <class T>
void silu(void* const* p, int64_t n, const void*) {
  T* const out = static_cast<T*>(p[0]);
  const T* const x = static_cast<const T*>(p[1]);
  T s[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = n - at < kPart ? n - at : kPart;
    sigmoid_part(s, x + at, count);
    DW_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) out[at + i] = x[at + i] * s[i];
  }
}

template <class T>
void gelu(void* const* p, int64_t n, const void*) {
  T* const out = static_cast<T*>(p[0]);
  const T* const x = static_cast<const T*>(p[1]);
  T s[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = n - at < kPart ? n - at : kPart;
    normal_part(s, x + at, count);
    DW_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) out[at + i] = x[at + i] * s[i];
  }
}

// The derivative of x * s(x) is s * (1 + x * (1 - s)).
template <class T>
void silu_backward(void* const* p, int64_t n, const void*) {
  T* const out = static_cast<T*>(p[0]);
  const T* const grad = static_cast<const T*>(p[1]);
  const T* const x = static_cast<const T*>(p[2]);
  T s[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = n - at < kPart ? n - at : kPart;
    sigmoid_part(s, x + at, count);
    DW_INDEPENDENT
    for (int64_t i = 0; i < count; ++i)
      out[at + i] = grad[at + i] * (s[i] * (T{1} + x[at + i] * (T{1} - s[i])));
  }
}

// The derivative of x * Phi(x) is Phi(x) + x * exp(-x^2 / 2) / sqrt(2 pi).
template <class T>
void gelu_backward(void* const* p, int64_t n, const void*) {
  T* const out = static_cast<T*>(p[0]);
  const T* const grad = static_cast<const T*>(p[1]);
  const T* const x = static_cast<const T*>(p[2]);
  T s[kPart], e[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = n - at < kPart ? n - at : kPart;
    normal_part(s, x + at, count);
    for (int64_t i = 0; i < count; ++i)
      e[i] = T{-0.5} * (x[at + i] * x[at + i]);
    functions<T>().exp(e, e, T{0}, count);
    DW_INDEPENDENT
    for (int64_t i = 0; i < count; ++i)
      out[at + i] =
          grad[at + i] *
          (s[i] + x[at + i] * e[i] * static_cast<T>(0.39894228040143267794));
  }
}

}  // namespace
}  // namespace distwrap::cpu::DW_VARIANT
