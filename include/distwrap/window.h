// Windows: memory of all ranks of a group that each of them can read and write
// without the owner's help, and signals that say when.
//
// Threads: any method from any thread; calls of several threads do not wait for
// each other. Ownership: a counted handle; copies name the same window. It ends
// with `destroy` or with its group. Memory that a rank brings is its own and
// lives until then; what the library allocates goes with the window.
//
//   auto window = distwrap::new_window({.count = 1024, .dtype = DType::kF32});
//   std::vector<float> x(16, 1.0f);
//   window->put_signal(distwrap::TensorView(x), Peer::group(1), 0,
//                      /*signal=*/3, /*value=*/1, SignalHow::kAdd);
//   window->wait_signal(3, Compare::kGe, 1);    // on rank 1
//   window->destroy();                          // on all ranks
//
// Offsets count elements of the *target's* part and are checked against its
// size, which may differ by rank, before anything is sent. The element type of
// a call is the target's; a part of u8 takes puts and gets of any type. What is
// seen when, and which backend has what: docs/windows.md.
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
}

struct WindowOptions {
  Group group = {};  // none: the world
  // This rank's part: contiguous memory of its own, or `count` elements of
  // `dtype` that the library allocates, zero at first. Allocated memory is
  // faster, and atomics need it on some backends.
  TensorView memory = {};
  int64_t count = 0;
  DType dtype = DType::kU8;
  // Of the group's backends the one by this name; empty: the one that serves
  // the memory's device.
  std::string backend = {};
  // Slots of each rank, 64-bit numbers that begin at 0. Equal on all ranks.
  int64_t signals = 64;
  // Of making it; unset: the group's.
  std::optional<absl::Duration> timeout = std::nullopt;
  absl::string_view label = {};  // stands in the errors
};

// What a signal does to its slot.
enum class SignalHow : uint8_t { kSet = 1, kAdd = 2 };
// slot <comparison> value, as unsigned numbers.
enum class Compare : uint8_t {
  kEq = 1,
  kNe = 2,
  kLt = 3,
  kLe = 4,
  kGt = 5,
  kGe = 6
};

// Whether this rank can load and store a rank's part itself.
enum class WindowAccess : uint8_t { kUnified, kSeparate };

struct WindowAttr {
  int64_t count = 0;
  DType dtype = DType::kU8;
  int64_t bytes = 0;
  WindowAccess access = WindowAccess::kSeparate;
};

class DISTWRAP_EXPORT Window {
 public:
  // None.
  Window() = default;

  explicit operator bool() const { return window_ != nullptr; }
  friend bool operator==(const Window&, const Window&) = default;

  // Of a window that exists.
  const Group& group() const { return group_; }
  int rank() const;
  int size() const;
  // This rank's part.
  TensorView memory() const;
  template <class T>
  absl::Span<T> memory_of() const {
    const TensorView own = memory();
    if (own.dtype() != dtype_of<T>) return {};
    return absl::MakeSpan(static_cast<T*>(own.data()),
                          static_cast<size_t>(own.count()));
  }

  // Writes to the target's part, and reads from it. No signal. A put has ended
  // when its source may be written again; `flush` makes sure that the data are
  // there. MPI: MPI_Put, MPI_Get. NCCL: none.
  absl::StatusOr<Work> put(TensorView src, Peer target, int64_t offset,
                           const CallOptions& options = {}) const;
  absl::StatusOr<Work> get(TensorView dst, Peer target, int64_t offset,
                           const CallOptions& options = {}) const;

  // Raises a slot of the target after the data. Earlier puts and accumulates of
  // this thread to the target are there then, too. MPI: none. NCCL:
  // ncclPutSignal.
  absl::StatusOr<Work> put_signal(TensorView src, Peer target, int64_t offset,
                                  int64_t signal, uint64_t value, SignalHow how,
                                  const CallOptions& options = {}) const;
  // The same without data. NCCL: ncclSignal.
  absl::StatusOr<Work> signal(Peer target, int64_t signal, uint64_t value,
                              SignalHow how,
                              const CallOptions& options = {}) const;
  // Until the slot of this rank compares so. Its data may be read then. At the
  // deadline kTimedOut, which breaks nothing: the wait may be made again.
  // MPI: none. NCCL: ncclWaitSignal.
  absl::StatusOr<Work> wait_signal(int64_t signal, Compare compare,
                                   uint64_t value,
                                   const CallOptions& options = {}) const;

  // Counting: every pair of ranks has a counter of its own in each direction; a
  // wait consumes one. The slots are not touched.
  absl::StatusOr<Work> signal(Peer target,
                              const CallOptions& options = {}) const;
  absl::StatusOr<Work> wait_signal(Peer from,
                                   const CallOptions& options = {}) const;

  // Reduces into the target's part, element by element; each is atomic to other
  // accumulates, fetch_ops and compare_swaps. SUM, PRODUCT, MIN, MAX and
  // bitwise. MPI: MPI_Accumulate. NCCL: none.
  absl::StatusOr<Work> accumulate(TensorView src, Peer target, int64_t offset,
                                  ReduceOp op,
                                  const CallOptions& options = {}) const;
  // The same; `old` gets what stood there. MPI: MPI_Get_accumulate,
  // MPI_Fetch_and_op.
  absl::StatusOr<Work> fetch_op(TensorView old, TensorView src, Peer target,
                                int64_t offset, ReduceOp op,
                                const CallOptions& options = {}) const;
  // Replaces one element by the second of `expected_desired` if it is, bit by
  // bit, the first. MPI: MPI_Compare_and_swap.
  absl::StatusOr<Work> compare_swap(TensorView old, TensorView expected_desired,
                                    Peer target, int64_t offset,
                                    const CallOptions& options = {}) const;

  // Of one element, waiting: what stood there before.
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

  // What this rank has put and accumulated is there, at the target or, without
  // one, at all. MPI: MPI_Win_flush.
  absl::StatusOr<Work> flush(Peer target = {},
                             const CallOptions& options = {}) const;
  // What this thread has done before is seen by nobody after what it does
  // later; waits for nobody.
  absl::StatusOr<Work> fence(const CallOptions& options = {}) const;

  // The target's part in this rank's own memory, to load and store. Errors:
  // kUnsupported where it cannot be mapped. MPI: MPI_Win_shared_query.
  absl::StatusOr<TensorView> map_remote(Peer target) const;
  absl::StatusOr<WindowAttr> get_attr(Peer target) const;

  // Collective: every rank of the group calls. Calls of this rank's threads
  // end, then all ranks meet; afterwards nobody writes to the memory. A window
  // that has ended: OK. It fails on all ranks or on none, by its timeout
  // (unset: the group's); kTimedOut names the ranks that did not come, and the
  // window is of no use any more. MPI: MPI_Win_free.
  absl::Status destroy(
      std::optional<absl::Duration> timeout = std::nullopt) const;

 private:
  friend absl::StatusOr<Window> new_window(const WindowOptions& options);
  Window(Group group, std::shared_ptr<comm::Window> window)
      : group_(std::move(group)), window_(std::move(window)) {}

  Group group_;
  std::shared_ptr<comm::Window> window_;
};

// Makes a window. Collective over the group: all ranks call, each with its own
// memory or size. Errors before anything is sent: kNotInitialized,
// kInvalidArgument, kNoCommunicator. Others, on all ranks: kCallMismatch,
// kTimedOut naming the missing, kUnsupported, kOutOfMemory.
// MPI: MPI_Win_create, MPI_Win_allocate. NCCL: ncclCommWindowRegister.
DISTWRAP_EXPORT absl::StatusOr<Window> new_window(
    const WindowOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_WINDOW_H_
