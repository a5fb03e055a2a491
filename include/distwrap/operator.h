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
    uint8_t offset, backends;
  };
  Layer layers[64];
  int slots;
};
inline constexpr int kSlots = 46;
DISTWRAP_EXPORT extern SlotMap slot_map;

inline int slot_of(KeySet set, int backend) {
  const SlotMap::Layer layer = slot_map.layers[set.highest_bit()];
  return layer.offset + (backend & layer.backends);
}

// A thread's own part of key sets: it adds `include` and takes `exclude` away.
struct ThreadKeys {
  uint64_t include;
  uint64_t exclude;
  // Odd while the thread is in a call, and different for each outermost call;
  // 0 before the first one. A library that unloads waits for it.
  uint64_t calls;
  bool gradients_off;
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

struct Slot {
  void* typed;
  const Kernel* kernel;
};

// The kernels of an operator as calls see them. A change makes a new table.
struct Table {
  // For each backend, the layers that have something to do.
  uint64_t masks[kBackends];
  Slot slots[kSlots];
};

// The part of an operator that calls read.
struct Operator {
  std::atomic<const Table*> table;
};

// Marks this thread as within a call.
class CallScope {
 public:
  CallScope() : outermost_((thread_keys.calls & 1) == 0) {
    if (outermost_) {
      if (thread_keys.calls == 0) enter_first();
      store(thread_keys.calls + 1);
    }
  }
  ~CallScope() {
    if (outermost_) store(thread_keys.calls + 1);
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  DISTWRAP_EXPORT static void enter_first();
  // A plain store: who waits for the call pays for the order.
  static void store(uint64_t calls) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    __atomic_store_n(&thread_keys.calls, calls, __ATOMIC_RELAXED);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  const bool outermost_;
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
  using Function = Result (*)(const Kernel*, KeySet, A...);

  explicit Op(OpHandle handle) : handle_(handle) {}
  const OpHandle& handle() const { return handle_; }

  Result call(A... args) const {
    const KeySet set =
        with_thread_keys(KeySet::of_bits((uint64_t{0} | ... | key_bits(args))));
    return redispatch(set, args...);
  }
  // For this set of keys, which is taken as it is.
  Result redispatch(KeySet set, A... args) const {
    const CallScope scope;
    const Table* const table =
        handle_.get()->table.load(std::memory_order_acquire);
    const int backend = set.backend();
    const KeySet masked = KeySet::of_bits(set.bits() & table->masks[backend]);
    const Slot& slot = table->slots[slot_of(masked, backend)];
    if (slot.typed != nullptr) [[likely]] {
      return reinterpret_cast<Function>(slot.typed)(slot.kernel, masked,
                                                    args...);
    }
    return call_cold(masked, args...);
  }

 private:
  // Boxes the arguments: for kernels that take a stack, and for errors.
  [[gnu::cold, gnu::noinline]] Result call_cold(KeySet set, A... args) const;

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

// The state of a thread, for threads that work on its behalf.
struct TlsState {
  uint64_t include = 0, exclude = 0;
  bool gradients_off = false;
  static TlsState capture() {
    return {thread_keys.include, thread_keys.exclude,
            thread_keys.gradients_off};
  }
  // Gives this thread the state, and answers what it had.
  TlsState restore() const {
    const TlsState before = capture();
    thread_keys.include = include;
    thread_keys.exclude = exclude;
    thread_keys.gradients_off = gradients_off;
    return before;
  }
};

}  // namespace distwrap::dispatch

#include "distwrap/kernel.h"  // IWYU pragma: export

#endif  // DISTWRAP_OPERATOR_H_
