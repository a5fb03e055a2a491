// Windows: memory of all ranks of a group that each rank can read and write
// without the owner's help, and signals that tell when data have arrived.
//
// Threads: any method from any thread; calls of several threads do not wait for
// each other. Ownership: a counted handle; copies name the same window. A
// window ends with `destroy` or with its group. Memory that a rank brings stays
// the rank's and must live until then; memory that the library allocates is
// freed with the window.
//
//   auto window = distwrap::new_window({.count = 1024, .dtype = DType::kF32});
//   std::vector<float> x(16, 1.0f);
//   window->put_signal(distwrap::TensorView(x), Peer::group(1), 0,
//                      /*signal=*/3, /*value=*/1, SignalHow::kAdd);
//   window->wait_signal(3, Compare::kGe, 1);    // on rank 1
//   window->destroy();                          // on all ranks
//
// Offsets count elements of the *target's* part. They are checked against its
// size, which may differ by rank, before anything is sent. The element type of
// a call is that of the target's part; a part of u8 accepts puts and gets of
// any type. docs/windows.md defines when data become visible and lists the
// backends' abilities.
#ifndef DISTWRAP_WINDOW_H_
#define DISTWRAP_WINDOW_H_

#include "distwrap/communicator.h"
#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/peer.h"
#include "distwrap/reduce_op.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace distwrap {

namespace comm {
class Window;
struct WindowOnStream;
}  // namespace comm

struct WindowOptions {
  Group group = {};  // empty: the world
  // This rank's part: contiguous memory of the caller, or `count` elements of
  // `dtype` that the library allocates and sets to zero. Allocated memory is
  // faster, and on some backends atomics need it.
  TensorView memory = {};
  int64_t count = 0;
  DType dtype = DType::kU8;
  // The name of one of the group's backends; empty: the backend that serves the
  // memory's device.
  std::string backend = {};
  // The number of slots of each rank; a slot is a 64-bit number that begins at
  // 0. Equal on all ranks.
  int64_t signals = 64;
  // The time limit of the creation; unset: the group's.
  std::optional<absl::Duration> timeout = std::nullopt;
  absl::string_view label = {};  // quoted by errors
};

// Whether a signal sets its slot or adds to it.
enum class SignalHow : uint8_t { kSet = 1, kAdd = 2 };
// The condition "slot <comparison> value", for unsigned numbers.
enum class Compare : uint8_t {
  kEq = 1,
  kNe = 2,
  kLt = 3,
  kLe = 4,
  kGt = 5,
  kGe = 6
};

// Whether this rank can load and store another rank's part directly.
enum class WindowAccess : uint8_t { kUnified, kSeparate };

struct WindowAttr {
  int64_t count = 0;
  DType dtype = DType::kU8;
  int64_t bytes = 0;
  WindowAccess access = WindowAccess::kSeparate;
};

namespace base {
class PageView;
}

// A rank's part of a window, mapped once more into this process: the same
// contents at another address, which stay as long as a copy of this lives, also
// when the window, its group and its session have ended.
class DISTWRAP_EXPORT WindowPages {
 public:
  // Pages of no window.
  WindowPages() = default;
  const TensorView& view() const { return view_; }

 private:
  friend class Window;
  WindowPages(std::shared_ptr<const base::PageView> pages, TensorView view)
      : pages_(std::move(pages)), view_(view) {}
  std::shared_ptr<const base::PageView> pages_;
  TensorView view_;
};

class DISTWRAP_EXPORT Window {
 public:
  // A handle of no window.
  Window() = default;

  explicit operator bool() const { return any() != nullptr; }
  friend bool operator==(const Window&, const Window&) = default;

  // The next three need a window that exists.
  const Group& group() const { return group_; }
  int rank() const;
  int size() const;
  // This rank's part of the window.
  TensorView memory() const;
  template <class T>
  absl::Span<T> memory_of() const {
    const TensorView own = memory();
    if (own.dtype() != dtype_of<T>) return {};
    return absl::MakeSpan(static_cast<T*>(own.data()),
                          static_cast<size_t>(own.count()));
  }

  // Returns the window with its calls on a stream of its device, as calls with
  // OpOptions::stream are; instead of those of an earlier `on`. Those calls are
  // kUnsupported on memory of the host.
  Window on(const Stream& stream) const;

  // Write to the target's part and read from it, without a signal. An ended put
  // means that its source may be written again; `flush` makes sure that the
  // data have arrived.
  // MPI: MPI_Put, MPI_Get. NCCL: none.
  absl::StatusOr<Work> put(TensorView src, Peer target, int64_t offset,
                           const CallOptions& options = {}) const;
  absl::StatusOr<Work> get(TensorView dst, Peer target, int64_t offset,
                           const CallOptions& options = {}) const;

  // Writes data, then raises a slot of the target. When the target sees the
  // signal, it also sees the earlier puts and accumulates of this thread to it.
  // MPI: none. NCCL: ncclPutSignal.
  absl::StatusOr<Work> put_signal(TensorView src, Peer target, int64_t offset,
                                  int64_t signal, uint64_t value, SignalHow how,
                                  const CallOptions& options = {}) const;
  // Raises a slot of the target without data. NCCL: ncclSignal.
  absl::StatusOr<Work> signal(Peer target, int64_t signal, uint64_t value,
                              SignalHow how,
                              const CallOptions& options = {}) const;
  // Waits until a slot of this rank fulfils the comparison; then the data that
  // belong to the signal may be read. kTimedOut at the deadline breaks nothing:
  // the wait may be repeated.
  // MPI: none. NCCL: ncclWaitSignal.
  absl::StatusOr<Work> wait_signal(int64_t signal, Compare compare,
                                   uint64_t value,
                                   const CallOptions& options = {}) const;

  // Counting signals: every ordered pair of ranks has a counter, and a wait
  // consumes one signal. These calls do not touch the slots. On memory of a GPU
  // they are the only signals.
  absl::StatusOr<Work> put_signal(TensorView src, Peer target, int64_t offset,
                                  const CallOptions& options = {}) const;
  absl::StatusOr<Work> signal(Peer target,
                              const CallOptions& options = {}) const;
  absl::StatusOr<Work> wait_signal(Peer from,
                                   const CallOptions& options = {}) const;

  // Reduces into the target's part, element by element. Each element is atomic
  // with respect to other accumulates, fetch_ops and compare_swaps. Reductions:
  // sum, product, min, max and bitwise.
  // MPI: MPI_Accumulate. NCCL: none.
  absl::StatusOr<Work> accumulate(TensorView src, Peer target, int64_t offset,
                                  ReduceOp op,
                                  const CallOptions& options = {}) const;
  // Accumulates, and `old` gets the elements from before.
  // MPI: MPI_Get_accumulate, MPI_Fetch_and_op.
  absl::StatusOr<Work> fetch_op(TensorView old, TensorView src, Peer target,
                                int64_t offset, ReduceOp op,
                                const CallOptions& options = {}) const;
  // Replaces one element by the second element of `expected_desired` if it
  // equals the first one bit by bit.
  // MPI: MPI_Compare_and_swap.
  absl::StatusOr<Work> compare_swap(TensorView old, TensorView expected_desired,
                                    Peer target, int64_t offset,
                                    const CallOptions& options = {}) const;

  // Waiting forms for one element; they return its value from before.
  template <class T>
  absl::StatusOr<T> fetch_add(T value, Peer target, int64_t offset) const {
    T old{};
    const absl::Status status =
        fetch_op(TensorView(&old, 1), TensorView(&value, 1), target, offset,
                 ReduceOp::kSum)
            .status();
    if (!status.ok()) return status;
    return old;
  }
  template <class T>
  absl::StatusOr<T> compare_swap(T expected, T desired, Peer target,
                                 int64_t offset) const {
    T old{};
    T both[] = {expected, desired};
    const absl::Status status =
        compare_swap(TensorView(&old, 1), TensorView(both, 2), target, offset)
            .status();
    if (!status.ok()) return status;
    return old;
  }

  // Ends when this rank's puts and accumulates have arrived at the target or,
  // without a target, at all ranks.
  // MPI: MPI_Win_flush.
  absl::StatusOr<Work> flush(Peer target = {},
                             const CallOptions& options = {}) const;
  // Orders this thread's operations: no rank sees an operation from before the
  // fence later than one from after it. The fence waits for no rank.
  absl::StatusOr<Work> fence(const CallOptions& options = {}) const;

  // The target's part, mapped into this process, to load and store.
  // kUnsupported where it cannot be mapped.
  // MPI: MPI_Win_shared_query.
  absl::StatusOr<TensorView> map_remote(Peer target) const;
  // The part of the target, or of this rank when it is unset, for views that
  // may outlive the window. kUnsupported when the part is not mapped here or is
  // memory that its rank brought.
  absl::StatusOr<WindowPages> pages(Peer target = {}) const;
  absl::StatusOr<WindowAttr> get_attr(Peer target) const;

  // Collective: every rank of the group calls. Waits for the calls of this
  // rank's threads, then for all ranks; afterwards no rank writes to the
  // memory. OK for a window that has ended. It fails on all ranks or on none,
  // by its timeout (unset: the group's); kTimedOut names the ranks that did not
  // come, and the window cannot be used any more.
  // MPI: MPI_Win_free.
  absl::Status destroy(
      std::optional<absl::Duration> timeout = std::nullopt) const;

 private:
  friend absl::StatusOr<Window> new_window(const WindowOptions& options);
  Window(Group group, std::shared_ptr<comm::Window> window)
      : group_(std::move(group)), window_(std::move(window)) {}

  comm::Window* any() const;

  Group group_;
  // One of the two, but for a handle of no window. Calls on a stream take the
  // longer way.
  std::shared_ptr<comm::Window> window_;
  std::shared_ptr<const comm::WindowOnStream> streamed_;
};

// Creates a window. Collective over the group: all ranks call, each with its
// own memory or size. Errors before anything is sent: kNotInitialized,
// kInvalidArgument, kNoCommunicator. Errors on all ranks: kCallMismatch,
// kTimedOut with the missing ranks, kUnsupported, kOutOfMemory.
// MPI: MPI_Win_create, MPI_Win_allocate. NCCL: ncclCommWindowRegister.
DISTWRAP_EXPORT absl::StatusOr<Window> new_window(
    const WindowOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_WINDOW_H_
