// The C++ type of each schema type, and how a value of one becomes one of the
// other.
//
// Threads and ownership: put() borrows what its argument points to, get() gives
// what the value borrows or owns.
//
//   Boxing<double>::put(2.5);                    // a Value of tag kFloat
//   Boxing<const Tensor&>                        // does not compile
//   Boxing<std::optional<int64_t>>::get(value);  // nullopt for None
#ifndef DISTWRAP_BOXING_H_
#define DISTWRAP_BOXING_H_

#include "distwrap/arguments.h"
#include "distwrap/random.h"
#include "distwrap/scalar.h"
#include "distwrap/schema.h"
#include "distwrap/tensor.h"
#include "distwrap/value.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace distwrap::dispatch {

// ---- types ----

template <class T>
struct Boxing {
  static_assert(sizeof(T) == 0,
                "this C++ type has no schema type; distwrap/kernel.h lists "
                "the types of parameters and results");
};

#define DW_BOXING(type, base_type, wanted, read)                       \
  template <>                                                          \
  struct Boxing<type> {                                                \
    static constexpr SchemaType schema{.base = BaseType::base_type};   \
    static bool fits(const Value& value) {                             \
      const Value::Tag tag = value.tag();                              \
      return wanted;                                                   \
    }                                                                  \
    static type get(const Value& value) { return read; }               \
    static Value put(const type& value) { return Value(value); }       \
    static Value put_owned(const type& value) { return Value(value); } \
  };
DW_BOXING(int64_t, kInt, tag == Value::Tag::kInt, value.to_int())
DW_BOXING(double, kFloat, tag == Value::Tag::kFloat || tag == Value::Tag::kInt,
          value.to_float())
DW_BOXING(bool, kBool, tag == Value::Tag::kBool, value.to_bool())
DW_BOXING(Scalar, kScalar,
          tag == Value::Tag::kInt || tag == Value::Tag::kFloat ||
              tag == Value::Tag::kBool,
          value.to_scalar())
DW_BOXING(DType, kScalarType, tag == Value::Tag::kDType, value.to_dtype())
DW_BOXING(Device, kDevice, tag == Value::Tag::kDevice, value.to_device())
#undef DW_BOXING

#define DW_BOXING_BORROWED(type, base_type, is_list, tag_name, read)     \
  template <>                                                            \
  struct Boxing<type> {                                                  \
    static constexpr SchemaType schema{.base = BaseType::base_type,      \
                                       .list = is_list};                 \
    static bool fits(const Value& value) {                               \
      return value.tag() == Value::Tag::tag_name;                        \
    }                                                                    \
    static type get(const Value& value) { return value.read(); }         \
    static Value put(const type& value) { return Value::borrow(value); } \
  };
DW_BOXING_BORROWED(absl::string_view, kStr, false, kString, to_string)
DW_BOXING_BORROWED(Generator, kGenerator, false, kGenerator, to_generator)
DW_BOXING_BORROWED(Ints, kInt, true, kInts, to_ints)
DW_BOXING_BORROWED(absl::Span<const double>, kFloat, true, kFloats, to_floats)
DW_BOXING_BORROWED(absl::Span<const bool>, kBool, true, kBools, to_bools)
DW_BOXING_BORROWED(TensorList, kTensor, true, kTensors, to_tensors)
#undef DW_BOXING_BORROWED

template <>
struct Boxing<OptTensorSpan> {
  static constexpr SchemaType schema{
      .base = BaseType::kTensor, .list = true, .optional_entries = true};
  static bool fits(const Value& value) {
    return value.tag() == Value::Tag::kTensors;
  }
  static OptTensorSpan get(const Value& value) { return value.to_tensors(); }
  static Value put(const OptTensorSpan& value) {
    return Value::borrow(TensorList(value));
  }
};

template <>
struct Boxing<Tensor> {
  static constexpr SchemaType schema{.base = BaseType::kTensor};
  static bool fits(const Value& value) { return value.is_tensor(); }
  static const Tensor& get(const Value& value) { return value.tensor(); }
  static Value put(const Tensor& value) { return Value::borrow(value); }
};
template <>
struct Boxing<const Tensor*> {
  static constexpr SchemaType schema{.base = BaseType::kTensor,
                                     .optional = true};
  static bool fits(const Value& value) {
    return value.is_tensor() || value.is_none();
  }
  static const Tensor* get(const Value& value) {
    return value.is_none() ? nullptr : &value.tensor();
  }
  static Value put(const Tensor* value) {
    return value == nullptr ? Value() : Value::borrow(*value);
  }
};
template <class T>
struct Boxing<std::optional<T>> {
  static constexpr SchemaType schema = [] {
    SchemaType type = Boxing<T>::schema;
    type.optional = true;
    return type;
  }();
  static bool fits(const Value& value) {
    return value.is_none() || Boxing<T>::fits(value);
  }
  static std::optional<T> get(const Value& value) {
    if (value.is_none()) return std::nullopt;
    return Boxing<T>::get(value);
  }
  static Value put(const std::optional<T>& value) {
    return value.has_value() ? Boxing<T>::put(*value) : Value();
  }
};

template <class A>
struct BoxingOfParam {
  static_assert(!std::is_same_v<A, Tensor>,
                "a kernel takes const Tensor&: a Tensor by value would count "
                "references in each call");
  using Type = Boxing<std::remove_cvref_t<A>>;
};
template <class A>
using ParamBoxing = typename BoxingOfParam<A>::Type;

// ---- results ----

template <class R>
struct Results {
  static std::vector<SchemaType> types() { return {Boxing<R>::schema}; }
  static void push(R result, Stack& stack) {
    if constexpr (std::is_same_v<R, Tensor>) {
      stack.push_back(Value::own(std::move(result)));
    } else if constexpr (requires { Boxing<R>::put_owned(result); }) {
      stack.push_back(Boxing<R>::put_owned(result));
    } else {
      stack.push_back(Boxing<R>::put(result).copy());
    }
  }
  static R take(Stack& stack, size_t first) {
    if constexpr (std::is_same_v<R, Tensor>) return stack[first].take_tensor();
    return Boxing<R>::get(stack[first]);
  }
  static bool fits(const Stack& stack, size_t first) {
    return stack.size() == first + 1 && Boxing<R>::fits(stack[first]);
  }
};
template <>
struct Results<void> {
  static std::vector<SchemaType> types() { return {}; }
};
template <>
struct Results<std::string> {
  static std::vector<SchemaType> types() {
    return {Boxing<absl::string_view>::schema};
  }
  static void push(const std::string& result, Stack& stack) {
    stack.push_back(Value::own_copy(absl::string_view(result)));
  }
  static std::string take(Stack& stack, size_t first) {
    return std::string(stack[first].to_string());
  }
  static bool fits(const Stack& stack, size_t first) {
    return stack.size() == first + 1 &&
           Boxing<absl::string_view>::fits(stack[first]);
  }
};
template <>
struct Results<std::vector<Tensor>> {
  static std::vector<SchemaType> types() {
    return {Boxing<TensorList>::schema};
  }
  static void push(const std::vector<Tensor>& result, Stack& stack) {
    stack.push_back(Value::own_copy(TensorList(result)));
  }
  static std::vector<Tensor> take(Stack& stack, size_t first) {
    const TensorList list = stack[first].to_tensors();
    return {list.begin(), list.end()};
  }
  static bool fits(const Stack& stack, size_t first) {
    return stack.size() == first + 1 && Boxing<TensorList>::fits(stack[first]);
  }
};
template <class... R>
struct Results<std::tuple<R...>> {
  static std::vector<SchemaType> types() { return {Boxing<R>::schema...}; }
  static void push(std::tuple<R...> result, Stack& stack) {
    std::apply(
        [&](R&... one) { (Results<R>::push(std::move(one), stack), ...); },
        result);
  }
  static std::tuple<R...> take(Stack& stack, size_t first) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<R...>{Results<R>::take(stack, first + I)...};
    }
    (std::index_sequence_for<R...>());
  }
  static bool fits(const Stack& stack, size_t first) {
    if (stack.size() != first + sizeof...(R)) return false;
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return (Boxing<R>::fits(stack[first + I]) && ...);
    }
    (std::index_sequence_for<R...>());
  }
};

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_BOXING_H_
