// One number as an argument of an operator.
//
// Threads and ownership: a plain value.
//
//   Scalar half = 0.5, two = 2;
//   half.to<float>();
#ifndef DISTWRAP_SCALAR_H_
#define DISTWRAP_SCALAR_H_

#include <concepts>
#include <cstdint>

namespace distwrap {

class Scalar {
 public:
  enum class Kind : uint8_t { kInt, kFloat, kBool };

  constexpr Scalar() : int_(0), kind_(Kind::kInt) {}
  constexpr Scalar(bool value)  // NOLINT(google-explicit-constructor)
      : int_(value ? 1 : 0), kind_(Kind::kBool) {}
  template <std::integral T>
  constexpr Scalar(T value)  // NOLINT(google-explicit-constructor)
      : int_(static_cast<int64_t>(value)), kind_(Kind::kInt) {}
  template <std::floating_point T>
  constexpr Scalar(T value)  // NOLINT(google-explicit-constructor)
      : float_(static_cast<double>(value)), kind_(Kind::kFloat) {}

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_float() const { return kind_ == Kind::kFloat; }
  // The value as another type, as static_cast converts it.
  template <class T>
  constexpr T to() const {
    return is_float() ? static_cast<T>(float_) : static_cast<T>(int_);
  }
  friend constexpr bool operator==(const Scalar& a, const Scalar& b) {
    if (a.kind_ != b.kind_) return false;
    return a.is_float() ? a.float_ == b.float_ : a.int_ == b.int_;
  }

 private:
  union {
    int64_t int_;
    double float_;
  };
  Kind kind_;
};

}  // namespace distwrap

#endif  // DISTWRAP_SCALAR_H_
