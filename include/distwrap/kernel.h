// From C++ functions to kernels and back: templates that box the arguments of
// typed calls and unbox the arguments of stacks.
//
//   schema              C++ parameter                        C++ result
//   Tensor              const Tensor&                        Tensor
//   Tensor?             const Tensor*, nullptr is None       -
//   Tensor[]            TensorList                           vector<Tensor>
//   int, float, bool    int64_t, double, bool                the same
//   str                 absl::string_view                    std::string
//   Scalar              const Scalar&                        Scalar
//   ScalarType, Device  DType, Device                        the same
//   int[], float[]      Ints, absl::Span<const double>       -
//   T?                  std::optional<T>                     -
//   (Tensor, Tensor)    -                                    TwoTensors
//   Tensor(a!)          const Tensor&                        void: the argument
//
// A kernel returns R or StatusOr<R>; for a written argument void or Status. It
// may take a KeySet first: the set of its call, for redispatch(). An exception
// that leaves a kernel becomes kKernelFailed; a StatusError becomes its status.
//
// Threads: a kernel is called from any thread.
#ifndef DISTWRAP_KERNEL_H_
#define DISTWRAP_KERNEL_H_

#include "distwrap/operator.h"
#include "distwrap/status.h"

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace distwrap {

// A status as an exception, for code that calls distwrap/throwing.h.
class DISTWRAP_EXPORT StatusError : public std::exception {
 public:
  explicit StatusError(absl::Status status);
  ~StatusError() override;
  const char* what() const noexcept override { return text_.c_str(); }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
  std::string text_;
};

namespace dispatch {

// The status of the exception that is being handled.
DISTWRAP_EXPORT absl::Status status_of_exception() noexcept;

// ---- types ----

template <class T>
struct Boxing {
  static_assert(sizeof(T) == 0,
                "this C++ type has no schema type; distwrap/kernel.h lists "
                "the types of parameters and results");
};

#define DW_BOXING(type, base_type, wanted, read)                     \
  template <>                                                        \
  struct Boxing<type> {                                              \
    static constexpr SchemaType schema{.base = BaseType::base_type}; \
    static bool fits(const Value& value) {                           \
      const Value::Tag tag = value.tag();                            \
      return wanted;                                                 \
    }                                                                \
    static type get(const Value& value) { return read; }             \
    static Value put(const type& value) { return Value(value); }     \
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

// ---- kernels of functions ----

// The C++ signature as text: "Tensor(const Tensor&, double)". Two signatures
// are one exactly if their texts are.
template <class Signature>
std::string signature_text() {
  // GCC and clang print the type between "Signature = " and the last bracket.
  const absl::string_view pretty = __PRETTY_FUNCTION__;
  const size_t first = pretty.find("Signature = ") + 12;
  size_t end = pretty.find("; std::string", first);
  if (end == absl::string_view::npos) end = pretty.rfind(']');
  return std::string(pretty.substr(first, end - first));
}

// The result of a kernel's C++ function without its StatusOr.
template <class T>
struct Unwrapped {
  using Type = T;
};
template <class T>
struct Unwrapped<absl::StatusOr<T>> {
  using Type = T;
};
template <>
struct Unwrapped<absl::Status> {
  using Type = void;
};

// "argument 2 'other': expected Tensor, found int 3".
DISTWRAP_EXPORT absl::Status wrong_argument(const OpHandle& op, size_t index,
                                            const SchemaType& expected,
                                            const Value& found);
DISTWRAP_EXPORT absl::Status wrong_count(const OpHandle& op, size_t expected,
                                         size_t found);
DISTWRAP_EXPORT absl::Status wrong_results(const OpHandle& op);

// How a kernel with this signature is called, by `Call`, which runs it.
template <class Call, class R, class... A>
struct Adapter {
  using Result = typename CallResult<R>::Type;

  static Result typed(const Kernel* kernel, KeySet set, A... args) noexcept {
    try {
      if constexpr (std::is_void_v<decltype(Call::run(kernel, set, args...))>) {
        Call::run(kernel, set, args...);
        return absl::OkStatus();
      } else {
        return Call::run(kernel, set, args...);
      }
    } catch (...) {
      return status_of_exception();
    }
  }

  static absl::Status boxed(const Kernel* kernel, const OpHandle& op,
                            KeySet set, Stack& stack) {
    constexpr size_t kCount = sizeof...(A);
    if (stack.size() < kCount) return wrong_count(op, kCount, stack.size());
    return boxed_from(kernel, op, set, stack, stack.size() - kCount,
                      std::index_sequence_for<A...>());
  }

 private:
  template <size_t... I>
  static absl::Status boxed_from(const Kernel* kernel, const OpHandle& op,
                                 KeySet set, Stack& stack,
                                 [[maybe_unused]] size_t first,
                                 std::index_sequence<I...>) {
    absl::Status wrong;
    const bool fit = ((ParamBoxing<A>::fits(stack[first + I]) ||
                       (wrong = wrong_argument(op, I, ParamBoxing<A>::schema,
                                               stack[first + I]),
                        false)) &&
                      ...);
    if (!fit) return wrong;
    Result result =
        typed(kernel, set, ParamBoxing<A>::get(stack[first + I])...);
    if constexpr (std::is_void_v<R>) {
      if (!result.ok()) return result;
      // The written argument is the result, as the very same handle.
      Value self = std::move(stack[first]);
      stack.resize(first);
      stack.push_back(self.copy());
    } else {
      if (!result.ok()) return std::move(result).status();
      stack.resize(first);
      Results<R>::push(*std::move(result), stack);
    }
    return absl::OkStatus();
  }
};

template <class Call, class R, class... A>
Kernel kernel_of(Site site) {
  using Unwrap = typename Unwrapped<R>::Type;
  using Adapted = Adapter<Call, Unwrap, A...>;
  Kernel kernel;
  kernel.typed = reinterpret_cast<void*>(&Adapted::typed);
  kernel.boxed = &Adapted::boxed;
  static const KernelType type{signature_text<Unwrap(A...)>(),
                               {ParamBoxing<A>::schema...},
                               Results<Unwrap>::types()};
  kernel.type = &type;
  kernel.site = site;
  return kernel;
}

// The types of a C++ function, with a first KeySet taken off.
template <class F>
struct FunctionTypes;
template <class R, class... A>
struct FunctionTypes<R (*)(A...)> {
  static constexpr bool kTakesSet = false;
  template <class Call>
  static Kernel kernel(Site site) {
    return kernel_of<Call, R, A...>(site);
  }
};
template <class R, class... A>
struct FunctionTypes<R (*)(KeySet, A...)> {
  static constexpr bool kTakesSet = true;
  template <class Call>
  static Kernel kernel(Site site) {
    return kernel_of<Call, R, A...>(site);
  }
};

template <auto kFunction>
struct CallFixed {
  template <class... A>
  static auto run(const Kernel*, KeySet set, A&&... args) {
    if constexpr (FunctionTypes<decltype(kFunction)>::kTakesSet) {
      return kFunction(set, args...);
    } else {
      return kFunction(args...);
    }
  }
};
template <class F>
struct CallPointer {
  template <class... A>
  static auto run(const Kernel* kernel, KeySet set, A&&... args) {
    const F function = reinterpret_cast<F>(kernel->function);
    if constexpr (FunctionTypes<F>::kTakesSet) {
      return function(set, args...);
    } else {
      return function(args...);
    }
  }
};

// The kernel of a function that is known when this is compiled: a call goes
// straight to it.
template <auto kFunction>
Kernel kernel(Site site = Site::current()) {
  return FunctionTypes<decltype(kFunction)>::template kernel<
      CallFixed<kFunction>>(site);
}
// The kernel of a function by its address.
template <class R, class... A>
Kernel kernel(R (*function)(A...), Site site = Site::current()) {
  using F = R (*)(A...);
  Kernel made = FunctionTypes<F>::template kernel<CallPointer<F>>(site);
  made.function = reinterpret_cast<void (*)()>(function);
  return made;
}
// A kernel for any operator: it works on the stack.
using BoxedFunction = absl::Status (*)(const OpHandle& op, KeySet set,
                                       Stack& stack);
DISTWRAP_EXPORT Kernel boxed(BoxedFunction function,
                             Site site = Site::current());
// A kernel that is none: its layer has nothing to do for the operator.
DISTWRAP_EXPORT Kernel fallthrough(Site site = Site::current());

// ---- calls through the stack ----

template <class R, class... A>
typename CallResult<R>::Type Op<R(A...)>::call_cold(KeySet set,
                                                    A... args) const {
  try {
    Stack stack;
    (stack.push_back(ParamBoxing<A>::put(args)), ...);
    const absl::Status status = handle_.redispatch_boxed(set, stack);
    if (!status.ok()) return status;
    if constexpr (std::is_void_v<R>) {
      return absl::OkStatus();
    } else {
      if (!Results<R>::fits(stack, 0)) return wrong_results(handle_);
      return Results<R>::take(stack, 0);
    }
  } catch (...) {
    return status_of_exception();
  }
}

DISTWRAP_EXPORT OpHandle find_operator(absl::string_view name,
                                       absl::string_view signature, Site site);

template <class Signature>
Op<Signature> find_op(absl::string_view name, Site site) {
  return Op<Signature>(find_operator(name, signature_text<Signature>(), site));
}

}  // namespace dispatch
}  // namespace distwrap

#endif  // DISTWRAP_KERNEL_H_
