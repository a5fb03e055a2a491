// Hooks: callbacks that see every call on a group and may refuse it.
//
// Threads: any. The hooks of a group run in the order in which they were added,
// in the calling thread, and hold no lock: a hook may start operations and may
// add and remove hooks. A call that a hook makes is shown to the other hooks
// but not to that hook. The callbacks `abort`, `straggler` and, for a call that
// returned before its operation ended, `completion` run in the thread that runs
// the callbacks of Works. Ownership: the hook lives as long as its handle.
// Views, texts and pointers of a HookedCall are valid during the callback only;
// buffers are the caller's.
//
//   auto hook = distwrap::add_hook({}, {.post = [](const HookedCall& call,
//                                                  const absl::Status& status)
//                                                  {
//     printf("%s %s\n", std::string(call.op).c_str(), status.ok() ? "" : "!");
//   }});
#ifndef DISTWRAP_HOOKS_H_
#define DISTWRAP_HOOKS_H_

#include "distwrap/export.h"
#include "distwrap/reduce_op.h"
#include "distwrap/status.h"
#include "distwrap/tensor_view.h"
#include "distwrap/types.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace distwrap {

class Group;
class Object;
struct NewGroupOptions;
struct SplitOptions;

namespace comm {
class HookEntry;
class HookList;
}  // namespace comm

// A call with all its options. A field that does not apply is empty, 0 or -1.
struct HookedCall {
  // The call's number: equal in pre, post and completion, and unique in the
  // process.
  uint64_t id = 0;
  // For an operation of a communicator its name in operations.h ("all_reduce",
  // "send"). Otherwise the name of the function ("all_gather_object",
  // "split_group", "destroy_process_group", "abort"), or "batch".
  absl::string_view op = {};
  uint16_t kind = 0;  // DW_OP_* of an operation, else 0

  // The group of the call, and this rank in it.
  absl::string_view group = {};
  uint64_t group_uid = 0;
  int rank = -1, group_size = 0;

  // The buffers of an operation: one view for each, or one for each rank when
  // the call gave a list. Counts and displacements are those of v forms, in
  // elements.
  absl::Span<const TensorView> inputs = {}, outputs = {};
  absl::Span<const int64_t> in_counts = {}, in_displs = {};
  absl::Span<const int64_t> out_counts = {}, out_displs = {};
  bool reduces = false;
  ReduceOp reduction = ReduceOp::kSum;  // valid when `reduces` is true
  bool exclusive = false;               // true for exscan
  bool in_place = false;
  int peer = -1;    // root or peer, rank of the group
  int64_t tag = 0;  // tag of a message
  bool async = false;
  absl::Duration timeout = absl::InfiniteDuration();  // the limit in force
  absl::string_view label = {};
  Stream stream = {};
  // The collective's sequence number in its group. It is assigned at
  // submission, so it is 0 in `pre`.
  uint64_t seq = 0;
  // For an operation on a window: the window's number, the offset in the
  // target's part, the index of the signal (-1 for the counter of the pair) and
  // the signal's operand. `peer` is the target.
  uint64_t window = 0;
  int64_t offset = 0;
  int64_t signal = 0;
  uint64_t value = 0;
  // For an item of a batch, the id of the batch; for a batch, its number of
  // items.
  uint64_t batch = 0;
  size_t items = 0;

  // For a call that moves objects: the objects that this rank gives.
  const Object* objects = nullptr;
  size_t object_count = 0;

  // For a call that makes a group: its options.
  const SplitOptions* split = nullptr;         // split_group and ..._by_color
  const NewGroupOptions* new_group = nullptr;  // new_group
  int64_t color = 0, key = 0;                  // split_group_by_color
};

// A group that has broken.
struct BrokenGroup {
  absl::string_view name = {};
  uint64_t uid = 0;
  int rank = -1, size = 0;
};

// A collective in which this rank has waited for longer than DISTWRAP_STRAGGLER
// for other ranks of its host.
struct Straggling {
  absl::string_view group = {};
  uint64_t group_uid = 0;
  int rank = -1, group_size = 0;
  absl::string_view op = {};  // "all_reduce"
  uint64_t seq = 0;
  absl::string_view label = {};  // first characters of the label
  absl::Duration waited = absl::ZeroDuration();
  absl::Span<const RankSeen> missing = {};  // by rank
  // Whether this rank has written `text` to stderr; one of the waiting ranks
  // does.
  bool logged = false;
  absl::string_view text = {};  // the line for stderr
};

// The callbacks of a hook; each may be empty. A call that fails because of its
// arguments, or because its group is closed or broken, runs none of them.
struct Hooks {
  // Runs before anything is sent. A returned error refuses the call: the call
  // fails here with that error and, by their deadline, on the other ranks with
  // an error that names this rank. A refused operation breaks the group; a
  // refused split_group or new_group does not. Hooks added later do not run for
  // a refused call. An exception counts as an error with the exception's text.
  // abort and destroy_process_group cannot be refused; there the error is
  // logged.
  std::function<absl::Status(const HookedCall&)> pre = {};
  // Runs once for each call, also when the hook has no `pre`, with the result
  // of the call. For an asynchronous operation that is the result of its start.
  std::function<void(const HookedCall&, const absl::Status&)> post = {};
  // Runs once when the group was aborted or broke, with the first cause.
  std::function<void(const BrokenGroup&, const absl::Status&)> abort = {};
  // Runs once for each asynchronous operation that was started, after its
  // `post` and when the operation has ended.
  std::function<void(const HookedCall&, const absl::Status&)> completion = {};
  // Runs when this rank waits for others: once for each collective, on every
  // rank that waits. The rank continues to wait until its deadline.
  std::function<void(const Straggling&)> straggler = {};
};

// The handle of a hook. The end of the handle removes the hook.
class DISTWRAP_EXPORT Hook {
 public:
  // A handle of no hook.
  Hook() = default;
  Hook(std::shared_ptr<comm::HookList> list,
       std::shared_ptr<comm::HookEntry> entry);
  ~Hook();
  Hook(Hook&& other) noexcept;
  Hook& operator=(Hook&& other) noexcept;

  explicit operator bool() const { return entry_ != nullptr; }

  // Removes the hook; any thread may call, at any time, also after the group
  // has ended. Returns when the hook runs in no other thread; the hook never
  // runs again, so the data that it uses may be freed. A call from within the
  // hook itself waits for other threads only, and the present run continues to
  // its end. Two hooks that remove each other at the same time in two threads
  // deadlock.
  void remove();

 private:
  std::shared_ptr<comm::HookList> list_;
  std::shared_ptr<comm::HookEntry> entry_;
};

// Adds a hook to a group: it sees the calls that begin from now on. An empty
// group means the world. Groups split from it have hooks of their own. Without
// hooks a call costs nothing more.
// = PMPI, torchcomms' register_pre_hook, ncclProfiler
// Errors: kNotInitialized.
DISTWRAP_EXPORT absl::StatusOr<Hook> add_hook(const Group& group, Hooks hooks);

}  // namespace distwrap

#endif  // DISTWRAP_HOOKS_H_
