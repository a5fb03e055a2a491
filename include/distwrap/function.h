// Differentiable functions: custom ones of a program, and the formulas that
// give operators their gradients.
//
// Threads: any. Ownership: the node of a result owns what the function saved.
//
//   struct Scale : Function<Scale> {
//     static StatusOr<Tensor> forward(Ctx& ctx, const Tensor& x, double k);
//     static StatusOr<Grads> backward(Ctx& ctx, Span<const Tensor> grads);
//   };
//   StatusOr<Tensor> y = Scale::apply(x, 2.0);
#ifndef DISTWRAP_FUNCTION_H_
#define DISTWRAP_FUNCTION_H_

#include "distwrap/autograd.h"
#include "distwrap/export.h"
#include "distwrap/kernel.h"
#include "distwrap/operator.h"
#include "distwrap/tensor.h"
#include "distwrap/value.h"

#include <absl/container/inlined_vector.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace distwrap::autograd {

// The tensors among the arguments of a call; nullptr for None.
using Inputs = absl::Span<const Tensor* const>;

// A tensor that a gradient needs, with the number of writes to its memory.
class DISTWRAP_EXPORT SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& tensor)
      : tensor_(tensor), version_(tensor.defined() ? tensor.version() : 0) {}
  // The tensor turned out to be an output. Its node must not hold it: that
  // would be a cycle.
  void become_output(uint32_t output);
  const Tensor& tensor() const { return tensor_; }
  // kSavedChanged if the memory was written since it was saved. `node` becomes
  // the history of an output.
  absl::StatusOr<Tensor> unpack(Node* node, size_t index) const;

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
  uint32_t output_ = 0;
  bool is_output_ = false;
};

// The context of a function: it carries what forward() hands to backward().
class DISTWRAP_EXPORT Ctx {
 public:
  // A tensor in a list of arguments, without a copy of its handle.
  struct Ref {
    Ref(const Tensor& of)
        : tensor(&of) {}  // NOLINT(google-explicit-constructor)
    const Tensor* tensor;
  };
  void save_for_backward(TensorList tensors) {
    if (node_ == nullptr) return;
    for (const Tensor& one : tensors) saved_.emplace_back(one);
  }
  void save_for_backward(std::initializer_list<Ref> tensors) {
    if (node_ == nullptr) return;
    for (const Ref& one : tensors) saved_.emplace_back(*one.tensor);
  }
  // Saved tensor `index`; throws StatusError for kSavedChanged, kBackwardTwice.
  Tensor saved(size_t index) const;
  bool needs_input_grad(size_t index) const {
    return index < 64 ? (needs_ >> index & 1) != 0 : needs_ != 0;
  }
  // A copy of input `index` with the input's history, for a function that
  // writes to the input.
  Tensor copy_of_input(size_t index, const Tensor& input) const;
  // `tensor`, an input, was written and is an output.
  void mark_dirty(const Tensor& tensor) { dirty_.push_back(tensor); }
  void mark_non_differentiable(const Tensor& tensor) {
    plain_.push_back(tensor);
  }
  // Without: backward() gets undefined gradients of outputs instead of zeros.
  void materialize_grads(bool wanted) { materialize_ = wanted; }
  // A value for backward(). Names are borrowed: they are literals.
  template <class T>
  void put(absl::string_view name, const T& value) {
    put_value(name, dispatch::ParamBoxing<T>::put(value).copy());
  }
  template <class T>
  T get(absl::string_view name) const {
    return dispatch::ParamBoxing<T>::get(get_value(name));
  }
  bool has(absl::string_view name) const;
  void put_value(absl::string_view name, Value value);
  const Value& get_value(absl::string_view name) const;

  // For Function only.
  void begin(Node* node) { node_ = node; }
  bool recording() const { return node_ != nullptr; }
  void set_needed(uint64_t needs) { needs_ = needs; }
  void finish(absl::Span<Tensor> outputs, Inputs inputs, bool is_formula,
              NodePtr node);
  absl::StatusOr<Grads> prepare(Grads grads) const;
  void release();

 private:
  Node* node_ = nullptr;
  uint64_t needs_ = 0;  // bit i: input i
  absl::InlinedVector<SavedTensor, 3> saved_;
  absl::InlinedVector<Tensor, 1> dirty_, plain_;
  absl::InlinedVector<std::pair<absl::string_view, Value>, 2> values_;
  bool materialize_ = true;
  bool released_ = false;
};

namespace internal {

// needs_gradient() for a tensor with the layer kAutograd.
DISTWRAP_EXPORT bool passes_gradient(const Tensor& tensor);
// Whether a gradient has to come back to the tensor; its edge.
inline bool needs_gradient(const Tensor* tensor) {
  return tensor != nullptr && tensor->keys().has(dispatch::kAutograd) &&
         passes_gradient(*tensor);
}
DISTWRAP_EXPORT Edge edge_of(const Tensor* tensor);
// Whether an operator may write to the tensor while gradients are on;
// `recorded` says that the write becomes part of its history.
DISTWRAP_EXPORT absl::Status check_write(const Tensor& tensor,
                                         absl::string_view op, bool recorded);
DISTWRAP_EXPORT std::string type_text(absl::string_view pretty);

// The number of tensors in an argument of this type; lists vary.
template <class T>
inline constexpr size_t kTensorsIn =
    std::is_same_v<T, Tensor> || std::is_same_v<T, const Tensor*> ||
            std::is_same_v<T, Tensor*>
        ? 1
        : 0;
template <class T>
inline constexpr bool kIsTensorList =
    std::is_convertible_v<T, TensorList> && !std::is_same_v<T, Tensor>;

// The tensors among arguments. Without lists their number is known.
template <class... A>
class Collected {
 public:
  explicit Collected(const A&... args) { (add(args), ...); }
  Inputs inputs() const { return {tensors_.data(), count_}; }

 private:
  void add(const Tensor& tensor) { put(&tensor); }
  void add(const Tensor* tensor) { put(tensor); }
  void add(TensorList tensors) {
    for (const Tensor& one : tensors) put(&one);
  }
  template <class T>
  void add(const T& list) requires kIsTensorList<T> {
    add(TensorList(list));
  }
  template <class T>
  void add(const T&) requires(!kIsTensorList<T>) {}
  void put(const Tensor* tensor) {
    if constexpr (kFixed) {
      tensors_[count_++] = tensor;
    } else {
      tensors_.push_back(tensor);
      ++count_;
    }
  }

  static constexpr bool kFixed = !(kIsTensorList<A> || ...);
  static constexpr size_t kCount = (kTensorsIn<A> + ... + 0);
  std::conditional_t<kFixed, std::array<const Tensor*, kCount>,
                     absl::InlinedVector<const Tensor*, 4>>
      tensors_;
  size_t count_ = 0;
};

inline absl::Span<Tensor> outputs_of(Tensor& result) { return {&result, 1}; }
inline absl::Span<Tensor> outputs_of(std::vector<Tensor>& result) {
  return absl::MakeSpan(result);
}
// A tuple's tensors, gathered and put back.
template <class... T>
struct Gathered {
  explicit Gathered(std::tuple<T...>& result)
      : tuple(result),
        tensors(std::apply(
            [](const T&... one) { return std::vector<Tensor>{one...}; },
            result)) {}
  void put_back() {
    [&]<size_t... I>(std::index_sequence<I...>) {
      ((std::get<I>(tuple) = tensors[I]), ...);
    }
    (std::index_sequence_for<T...>());
  }
  std::tuple<T...>& tuple;
  std::vector<Tensor> tensors;
};

}  // namespace internal

// A differentiable function of a program's own. forward() notes nothing of what
// it calls. backward() gives one gradient for each tensor among the arguments,
// entries of lists included.
template <class T>
struct Function {
  template <class... A>
  static auto apply(const A&... args);
  // See Formula.
  static constexpr bool kIsFormula = false;
  // The first argument is written.
  static constexpr bool kInPlace = false;
  static std::string name() { return internal::type_text(__PRETTY_FUNCTION__); }
};

template <class T>
class FunctionNode final : public Node {
 public:
  // The edges come first: a node is newer than all that it leads to.
  explicit FunctionNode(Inputs inputs) : Node(Unnumbered::kYes) {
    count_in(distwrap::internal::objects_here<T>());
    uint64_t needs = 0;
    edges.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!internal::needs_gradient(inputs[i])) continue;
      needs |= uint64_t{1} << std::min<size_t>(i, 63);
      edges[i] = internal::edge_of(inputs[i]);
    }
    take_number();
    ctx.begin(this);
    ctx.set_needed(needs);
  }
  absl::StatusOr<Grads> backward(Grads grads) override {
    try {
      absl::StatusOr<Grads> ready = ctx.prepare(std::move(grads));
      if (!ready.ok()) return ready;
      return T::backward(ctx, absl::MakeConstSpan(*ready));
    } catch (...) {
      return dispatch::status_of_exception();
    }
  }
  std::string name() const override { return T::name(); }
  void release() override { ctx.release(); }
  Ctx ctx;
};

template <class T>
template <class... A>
auto Function<T>::apply(const A&... args) {
  using Forward = decltype(T::forward(std::declval<Ctx&>(), args...));
  using R = typename dispatch::Unwrapped<Forward>::Type;
  using Result = typename dispatch::CallResult<R>::Type;
  const internal::Collected<A...> collected(args...);
  const Inputs inputs = collected.inputs();
  const bool recorded =
      gradients_on() &&
      std::any_of(inputs.begin(), inputs.end(), &internal::needs_gradient);
  if constexpr (T::kInPlace) {
    if (gradients_on()) {
      absl::Status status =
          internal::check_write(*inputs[0], T::name(), recorded);
      if (!status.ok()) return Result(std::move(status));
    }
  }
  const auto run = [&](Ctx& ctx) -> Result {
    // The layers above have seen the operator of a formula already.
    const dispatch::ExcludeGuard below{
        T::kIsFormula
            ? dispatch::KeySet::of_bits(
                  ~uint64_t{0} << static_cast<int>(dispatch::kAutograd))
            : dispatch::KeySet(dispatch::kAutograd)};
    if constexpr (std::is_void_v<Forward>) {
      T::forward(ctx, args...);
      return absl::OkStatus();
    } else {
      return T::forward(ctx, args...);
    }
  };
  if (!recorded) {
    Ctx ctx;
    return run(ctx);
  }
  auto* const made = new FunctionNode<T>(inputs);
  NodePtr node(made);
  Ctx* const ctx = &made->ctx;
  Result result = run(*ctx);
  if (!result.ok()) return result;
  if constexpr (std::is_void_v<R>) {
    Tensor self = *inputs[0];
    ctx->mark_dirty(self);
    ctx->finish({&self, 1}, inputs, T::kIsFormula, std::move(node));
  } else if constexpr (requires { internal::outputs_of(*result); }) {
    ctx->finish(internal::outputs_of(*result), inputs, T::kIsFormula,
                std::move(node));
  } else {
    internal::Gathered gathered(*result);
    ctx->finish(absl::MakeSpan(gathered.tensors), inputs, T::kIsFormula,
                std::move(node));
    gathered.put_back();
  }
  return result;
}

// The gradient of an operator: forward() calls the operator, whose layers below
// kAutograd compute the result. Views that it makes may be written.
//
//   struct Scale : Formula<Scale> {
//     static constexpr char kName[] = "demo::scale";
//     static StatusOr<Tensor> forward(Ctx& ctx, const Tensor& x, double k);
//     static StatusOr<Grads> backward(Ctx& ctx, Span<const Tensor> grads);
//   };
//   lib.impl("demo::scale", kAutograd,
//            formula<Scale, Tensor(const Tensor&, double)>());
template <class T>
struct Formula : Function<T> {
  static constexpr bool kIsFormula = true;
  static std::string name() { return T::kName; }
};

namespace internal {
template <class T, class Signature>
struct FormulaKernel;
template <class T, class R, class... A>
struct FormulaKernel<T, R(A...)> {
  static typename dispatch::CallResult<R>::Type run(A... args) {
    return Function<T>::apply(args...);
  }
};
}  // namespace internal

// The kernel for kAutograd of a formula, for an operator of this C++ signature.
template <class T, class Signature>
dispatch::Kernel formula(dispatch::Site site = dispatch::Site::current()) {
  return dispatch::kernel<&internal::FormulaKernel<T, Signature>::run>(site);
}

}  // namespace distwrap::autograd

#endif  // DISTWRAP_FUNCTION_H_
