// Operators: named functions of tensors whose kernels come from libraries.
//
// A call unites the key sets of all tensors among its arguments (a Device
// argument counts as a dense tensor of that device), adds what this thread
// includes and takes away what it excludes, drops the layers that have nothing
// to do for the operator, and runs the kernel of the highest layer that is
// left. A kernel calls the layers below with redispatch().
//
// Threads: any thread may call while others register; a call sees the table of
// before or of after. A call takes no lock, counts no reference and allocates
// nothing. Ownership: handles never dangle; after its definition has gone an
// operator answers kOpUnknown until it is back.
//
//   static const auto add =
//       find_op<Tensor(const Tensor&, const Tensor&, const Scalar&)>(
//           "dw::add.Tensor");
//   StatusOr<Tensor> z = add.call(x, y, 1);
#ifndef DISTWRAP_OPERATOR_H_
#define DISTWRAP_OPERATOR_H_

#include "distwrap/abi/note.h"
#include "distwrap/arguments.h"
#include "distwrap/export.h"
#include "distwrap/key_set.h"
#include "distwrap/schema.h"
#include "distwrap/tensor.h"
#include "distwrap/value.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::dispatch {

// A place in a source file: clang 14 has no std::source_location.
class Site {
 public:
  constexpr Site() = default;
  // The place that calls this, or that calls a function whose default argument
  // it is.
  static constexpr Site current(const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) {
    Site site;
    site.file_ = file;
    site.line_ = line;
    return site;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr int line() const { return line_; }

 private:
  const char* file_ = "";
  int line_ = 0;
};

// Where a key set's slot lies in a table: the offset of each layer, and for
// layers with kernels by backend the bits of the backend that are added.
struct SlotMap {
  struct Layer {
    uint32_t offset, backends;
  };
  Layer layers[64];
  int slots;
};
inline constexpr int kSlots = 46;
DISTWRAP_EXPORT extern SlotMap slot_map;

inline uint32_t slot_of(KeySet set, uint32_t backend) {
  const SlotMap::Layer& layer =
      slot_map.layers[static_cast<uint32_t>(set.highest_bit())];
  return (backend & layer.backends) + layer.offset;
}

// A thread's own part of key sets: it adds `include` and takes `exclude` away.
struct ThreadKeys {
  uint64_t include;
  uint64_t exclude;
  // How many calls the thread is in, and the number of its next outermost call;
  // 0 before the first one. A library that unloads waits for a change.
  uint64_t depth;
  uint64_t calls;
  bool gradients_off;
  bool modes;  // whether the thread has any
};
DISTWRAP_EXPORT extern __thread ThreadKeys thread_keys
    __attribute__((tls_model("initial-exec")));

inline KeySet with_thread_keys(KeySet set) {
  return KeySet::of_bits((set.bits() | thread_keys.include) &
                         ~thread_keys.exclude);
}

class OpHandle;
struct Operator;

// The C++ signature of kernels, and the schema types that belong to it.
struct KernelType {
  std::string signature;
  std::vector<SchemaType> params, returns;
};

// A function behind an operator. `typed` has the operator's C++ signature,
// StatusOr<R>(const Kernel*, KeySet, A...), and is nullptr for kernels that
// take a stack only.
struct Kernel {
  void* typed = nullptr;
  absl::Status (*boxed)(const Kernel* kernel, const OpHandle& op, KeySet set,
                        Stack& stack) = nullptr;
  void (*function)() = nullptr;
  const KernelType* type = nullptr;  // nullptr for boxed kernels
  bool fallthrough = false;
  Site site;
};

struct Observers;  // src/dispatch/observers.h

// The kernels of an operator as calls see them. A change makes a new table.
struct Table {
  // For each backend, the layers that have something to do.
  uint64_t masks[kBackends];
  // The typed function of each slot's kernel. They are all nullptr while the
  // operator is observed: the branch that calls take for boxed kernels is the
  // only one that observers need.
  void* typed[kSlots];
  const Kernel* kernels[kSlots];
  const Observers* observers;
};

// The part of an operator that calls read.
struct Operator {
  std::atomic<const Table*> table;
};

// Writes a word that other threads read, by a plain store: a reader makes this
// thread pass a fence first.
inline void write_word(uint64_t& word, uint64_t value) {
#if DW_SANITIZER == DW_SANITIZER_THREAD
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
#else
  word = value;
#endif
}

// Marks this thread as within a call, for whoever frees what calls may use.
class CallScope {
 public:
  // For a thread that has made calls.
  struct Known {
    Known() {
      write_word(thread_keys.depth, thread_keys.depth + 1);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~Known() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      write_word(thread_keys.depth, thread_keys.depth - 1);
      if (thread_keys.depth == 0) {
        write_word(thread_keys.calls, thread_keys.calls + 1);
      }
    }
    Known(const Known&) = delete;
    Known& operator=(const Known&) = delete;
  };
  // Makes the thread known, before its first call.
  DISTWRAP_EXPORT static void enter_first();

 private:
  struct First {
    First() {
      if (thread_keys.calls == 0) enter_first();
    }
  };
  const First first_;
  const Known known_;
};

// An operator by name, whether it is defined or not.
class DISTWRAP_EXPORT OpHandle {
 public:
  explicit OpHandle(Operator* op) : op_(op) {}

  std::string name() const;
  // The declaration; kOpUnknown while there is none.
  absl::StatusOr<std::shared_ptr<const Schema>> schema() const;
  // Arguments are the last values of the stack; the results replace them.
  // Arguments that are missing at the end get their defaults.
  // Errors: kOpUnknown, kNoKernel, kArgument, those of the kernel.
  absl::Status call_boxed(Stack& stack) const;
  // call_boxed for this set of keys, which is taken as it is.
  absl::Status redispatch_boxed(KeySet set, Stack& stack) const;
  // A line for each slot: kernel, and why it was chosen.
  std::string dump() const;
  friend bool operator==(const OpHandle&, const OpHandle&) = default;
  Operator* get() const { return op_; }

 private:
  Operator* op_;
};

// The handle of a name such as "dw::add.Tensor".
DISTWRAP_EXPORT OpHandle find_operator(absl::string_view name);

// The results of R: what a call gives, and how a kernel may say it.
template <class R>
struct CallResult {
  using Type = absl::StatusOr<R>;
};
template <>
struct CallResult<void> {
  using Type = absl::Status;
};

// The keys that an argument brings to the set of a call.
inline uint64_t key_bits(const Tensor& tensor) { return tensor.keys().bits(); }
inline uint64_t key_bits(const Tensor* tensor) {
  return tensor == nullptr ? 0 : tensor->keys().bits();
}
inline uint64_t key_bits(TensorList tensors) {
  uint64_t bits = 0;
  for (const Tensor& tensor : tensors) bits |= tensor.keys().bits();
  return bits;
}
inline uint64_t key_bits(OptTensorSpan tensors) {
  return key_bits(TensorList(tensors));
}
inline uint64_t key_bits(Device device) {
  return KeySet(kDense, device).bits();
}
template <class T>
uint64_t key_bits(const T&) {
  return 0;
}

// An operator whose C++ signature is known. Made by find_op.
template <class Signature>
class Op;

template <class R, class... A>
class Op<R(A...)> {
 public:
  using Result = typename CallResult<R>::Type;
  using Function = Result (*)(const Kernel*, KeySet, A...) noexcept;

  explicit Op(OpHandle handle) : handle_(handle) {}
  const OpHandle& handle() const { return handle_; }

  [[gnu::always_inline]] Result call(A... args) const {
    return enter<true>(
        with_thread_keys(KeySet::of_bits((uint64_t{0} | ... | key_bits(args)))),
        args...);
  }
  // For this set of keys, which is taken as it is.
  Result redispatch(KeySet set, A... args) const {
    return enter<false>(set, args...);
  }

 private:
  template <bool kIsCall>
  [[gnu::always_inline]] Result enter(KeySet set, A... args) const {
    if (thread_keys.calls == 0) [[unlikely]] {
      return enter_first<kIsCall>(set, args...);
    }
    const CallScope::Known scope;
    const Table* const table =
        handle_.get()->table.load(std::memory_order_acquire);
    const auto backend = static_cast<uint32_t>(set.backend());
    const KeySet masked = KeySet::of_bits(set.bits() & table->masks[backend]);
    const uint32_t slot = slot_of(masked, backend);
    const Kernel* const kernel = table->kernels[slot];
    if (void* const typed = table->typed[slot]; typed != nullptr) [[likely]] {
      return reinterpret_cast<Function>(typed)(kernel, masked, args...);
    }
    return call_boxed_kernel(kIsCall ? table->observers : nullptr, kernel,
                             masked, args...);
  }
  // The first call of a thread; apart, so that others keep their arguments in
  // registers.
  template <bool kIsCall>
  [[gnu::noinline, gnu::cold]] Result enter_first(KeySet set, A... args) const {
    CallScope::enter_first();
    return enter<kIsCall>(set, args...);
  }
  // For kernels that take a stack, observers, and errors.
  [[gnu::noinline]] Result call_boxed_kernel(const Observers* observers,
                                             const Kernel* kernel, KeySet set,
                                             A... args) const;

  OpHandle handle_;
};

// The operator of this name and C++ signature. Errors show in calls:
// kSignatureMismatch where kernels have another signature, kOpUnknown while it
// is not defined.
template <class Signature>
Op<Signature> find_op(absl::string_view name, Site site = Site::current());

// Adds layers to the calls of this thread, and takes them away, as long as the
// guard lives. What was there before stays.
class IncludeGuard {
 public:
  explicit IncludeGuard(KeySet keys)
      : added_(keys.bits() & ~thread_keys.include & ~KeySet::kBackendBits) {
    thread_keys.include |= added_;
  }
  ~IncludeGuard() { thread_keys.include &= ~added_; }
  IncludeGuard(const IncludeGuard&) = delete;
  IncludeGuard& operator=(const IncludeGuard&) = delete;

 private:
  const uint64_t added_;
};
class ExcludeGuard {
 public:
  explicit ExcludeGuard(KeySet keys)
      : added_(keys.bits() & ~thread_keys.exclude & ~KeySet::kBackendBits) {
    thread_keys.exclude |= added_;
  }
  ~ExcludeGuard() { thread_keys.exclude &= ~added_; }
  ExcludeGuard(const ExcludeGuard&) = delete;
  ExcludeGuard& operator=(const ExcludeGuard&) = delete;

 private:
  const uint64_t added_;
};

struct ModeStack;  // src/dispatch/modes.cc
DISTWRAP_EXPORT std::shared_ptr<const ModeStack> modes_of_thread();
DISTWRAP_EXPORT void set_modes_of_thread(std::shared_ptr<const ModeStack> list);

// The state of a thread, for threads that work on its behalf: sets, modes, and
// whether gradients are on.
struct TlsState {
  uint64_t include = 0, exclude = 0;
  bool gradients_off = false;
  std::shared_ptr<const ModeStack> modes;
  static TlsState capture() {
    return {thread_keys.include, thread_keys.exclude, thread_keys.gradients_off,
            thread_keys.modes ? modes_of_thread() : nullptr};
  }
  // Gives this thread the state, and answers what it had.
  TlsState restore() const {
    TlsState before = capture();
    thread_keys.include = include;
    thread_keys.exclude = exclude;
    thread_keys.gradients_off = gradients_off;
    if (modes != before.modes) set_modes_of_thread(modes);
    return before;
  }
};

}  // namespace distwrap::dispatch

#include "distwrap/kernel.h"  // IWYU pragma: export

#endif  // DISTWRAP_OPERATOR_H_
