// From C++ functions to kernels and back: templates that box the arguments of
// typed calls and unbox the arguments of stacks.
//
//   schema              C++ parameter                        C++ result
//   Tensor              const Tensor&                        Tensor
//   Tensor?             const Tensor*, nullptr is None       -
//   Tensor[]            TensorList                           vector<Tensor>
//   Tensor?[]           OptTensorSpan, undefined is None     -
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

#include "distwrap/boxing.h"
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
  // The error of the first value that does not fit.
  template <size_t... I>
  [[gnu::cold, gnu::noinline]] static absl::Status first_wrong(
      const OpHandle& op, const Stack& stack, size_t first,
      std::index_sequence<I...>) {
    absl::Status wrong;
    (void)((ParamBoxing<A>::fits(stack[first + I]) ||
            (wrong = wrong_argument(op, I, ParamBoxing<A>::schema,
                                    stack[first + I]),
             false)) &&
           ...);
    return wrong;
  }
  template <size_t... I>
  static absl::Status boxed_from(const Kernel* kernel, const OpHandle& op,
                                 KeySet set, Stack& stack,
                                 [[maybe_unused]] size_t first,
                                 std::index_sequence<I...>) {
    if (!(ParamBoxing<A>::fits(stack[first + I]) && ...)) [[unlikely]] {
      return first_wrong(op, stack, first, std::index_sequence<I...>());
    }
    Result result =
        typed(kernel, set, ParamBoxing<A>::get(stack[first + I])...);
    if constexpr (std::is_void_v<R>) {
      if (!result.ok()) return result;
      // The written argument is the result, as the very same handle.
      stack.shrink(first + 1);
      if (!stack[first].is_owned()) stack[first] = stack[first].copy();
    } else {
      if (!result.ok()) return std::move(result).status();
      stack.shrink(first);
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

// Tells the observers of the begin of a call; `arguments` is nullptr where none
// has asked for them. Returns whether the arguments are asked for.
DISTWRAP_EXPORT bool observers_want_values(const Observers& observers);
DISTWRAP_EXPORT void tell_begin(const Observers& observers, const OpHandle& op,
                                KeySet set, const Stack* arguments);
DISTWRAP_EXPORT void tell_end(const Observers& observers, const OpHandle& op,
                              const absl::Status& status, const Stack* results);
// The error of a call that finds no kernel.
DISTWRAP_EXPORT absl::Status no_kernel(const OpHandle& op, KeySet set,
                                       const Stack& stack);

// Runs the kernel for values on a stack, which the results replace.
inline absl::Status run_boxed(const OpHandle& op, const Kernel* kernel,
                              KeySet set, Stack& stack) {
  return kernel != nullptr ? kernel->boxed(kernel, op, set, stack)
                           : no_kernel(op, set, stack);
}
DISTWRAP_EXPORT absl::Status run_observed(const Observers& observers,
                                          const OpHandle& op,
                                          const Kernel* kernel, KeySet set,
                                          Stack& stack);

template <class R, class... A>
typename CallResult<R>::Type Op<R(A...)>::call_boxed_kernel(
    const Observers* observers, const Kernel* kernel, KeySet set,
    A... args) const {
  try {
    // An observed call stays typed unless an observer asks for values.
    if (kernel != nullptr && kernel->typed != nullptr &&
        (observers == nullptr || !observers_want_values(*observers))) {
      if (observers != nullptr) tell_begin(*observers, handle_, set, nullptr);
      Result result =
          reinterpret_cast<Function>(kernel->typed)(kernel, set, args...);
      if (observers != nullptr) {
        if constexpr (std::is_void_v<R>) {
          tell_end(*observers, handle_, result, nullptr);
        } else {
          tell_end(*observers, handle_, result.status(), nullptr);
        }
      }
      return result;
    }
    Stack stack;
    (stack.push_back(ParamBoxing<A>::put(args)), ...);
    absl::Status status =
        observers != nullptr
            ? run_observed(*observers, handle_, kernel, set, stack)
            : run_boxed(handle_, kernel, set, stack);
    if (!status.ok()) return status;
    if constexpr (std::is_void_v<R>) {
      return status;
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
