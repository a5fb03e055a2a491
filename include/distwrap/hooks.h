// Hooks: what a program wants to see of every call on a group, and may refuse.
//
// Threads: any. The hooks of a group run in the order in which they were added,
// in the thread that makes the call, off all locks: a hook may start operations
// and add or remove hooks. What a hook itself calls is shown to the others, not
// to that hook again. `abort`, `straggler` and, of what still runs when its
// call returns, `completion` run where the callbacks of Works do. Ownership:
// the handle's. Views, texts and pointers of a HookedCall last as long as the
// callback runs; buffers are the caller's.
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

// A call with all its options. What does not apply is empty, 0 or -1.
struct HookedCall {
  // Names the call: the same in pre, post and completion, of no other call of
  // the process.
  uint64_t id = 0;
  // The name in operations.h for operations of the communicators ("all_reduce",
  // "send"); else that of the function ("all_gather_object", "split_group",
  // "destroy_process_group", "abort"), or "batch".
  absl::string_view op = {};
  uint16_t kind = 0;  // DW_OP_*; 0 for the latter

  // On which group, and who this is in it.
  absl::string_view group = {};
  uint64_t group_uid = 0;
  int rank = -1, group_size = 0;

  // Of an operation: one view for each buffer, of a list form one for each
  // rank. Counts and displacements are those of v forms, in elements.
  absl::Span<const TensorView> inputs = {}, outputs = {};
  absl::Span<const int64_t> in_counts = {}, in_displs = {};
  absl::Span<const int64_t> out_counts = {}, out_displs = {};
  bool reduces = false;
  ReduceOp reduction = ReduceOp::kSum;  // when it `reduces`
  bool exclusive = false;               // exscan
  bool in_place = false;
  int peer = -1;    // root or peer, rank of the group
  int64_t tag = 0;  // of a message
  bool async = false;
  absl::Duration timeout = absl::InfiniteDuration();  // the limit in force
  absl::string_view label = {};
  Stream stream = {};
  // Number among the group's collectives. Given at submission: 0 in `pre`.
  uint64_t seq = 0;
  // Of an operation on a window: which, and of the target's part; the index of
  // a signal, -1 for the pair's counter, and its operand. `peer` is the target.
  uint64_t window = 0;
  int64_t offset = 0;
  int64_t signal = 0;
  uint64_t value = 0;
  // Of an item, the id of its batch; of a batch, how many items it has.
  uint64_t batch = 0;
  size_t items = 0;

  // Of calls that move objects: what this rank gives.
  const Object* objects = nullptr;
  size_t object_count = 0;

  // Of calls that make groups.
  const SplitOptions* split = nullptr;         // split_group and ..._by_color
  const NewGroupOptions* new_group = nullptr;  // new_group
  int64_t color = 0, key = 0;                  // split_group_by_color
};

// The group that has broken.
struct BrokenGroup {
  absl::string_view name = {};
  uint64_t uid = 0;
  int rank = -1, size = 0;
};

// A collective in which this rank has waited for longer than DISTWRAP_STRAGGLER
// for ranks of its host that have not come.
struct Straggling {
  absl::string_view group = {};
  uint64_t group_uid = 0;
  int rank = -1, group_size = 0;
  absl::string_view op = {};  // "all_reduce"
  uint64_t seq = 0;
  absl::string_view label = {};  // its first characters
  absl::Duration waited = absl::ZeroDuration();
  absl::Span<const RankSeen> missing = {};  // by rank
  // Whether this rank has said so on stderr: one of those that wait does.
  bool logged = false;
  absl::string_view text = {};  // what was said, or would have been
};

// Each may be empty. A call that its arguments rule out, or that is made on a
// group that is closed or broken, runs none.
struct Hooks {
  // Before anything is sent. An error refuses the call: it fails with that
  // error here, and on the other ranks, by their deadline, with one that names
  // this rank; a refused operation breaks the group, a refused split_group or
  // new_group does not. The hooks behind it do not run. An exception is an
  // error with its text. abort and destroy_process_group cannot be refused:
  // there the error is logged.
  std::function<absl::Status(const HookedCall&)> pre = {};
  // Once for each `pre`, also when there is none of it, with how the call went:
  // of an asynchronous operation whether it was begun.
  std::function<void(const HookedCall&, const absl::Status&)> post = {};
  // The group was aborted, or broke; once. With the first cause.
  std::function<void(const BrokenGroup&, const absl::Status&)> abort = {};
  // Once for each asynchronous operation that was begun, when it has ended;
  // after its `post`.
  std::function<void(const HookedCall&, const absl::Status&)> completion = {};
  // This rank waits for others: once for each collective, on every rank that
  // waits. It goes on waiting, to its deadline.
  std::function<void(const Straggling&)> straggler = {};
};

// A hook that is added; its end removes it.
class DISTWRAP_EXPORT Hook {
 public:
  // None.
  Hook() = default;
  Hook(std::shared_ptr<comm::HookList> list,
       std::shared_ptr<comm::HookEntry> entry);
  ~Hook();
  Hook(Hook&& other) noexcept;
  Hook& operator=(Hook&& other) noexcept;

  explicit operator bool() const { return entry_ != nullptr; }

  // Any thread, any time, also after the group's end. Waits until it runs in no
  // other thread, and it never runs again: what it uses may go. From within the
  // hook itself it waits for other threads alone; this run goes on to its end.
  // Two hooks that remove each other at one time, in two threads, wait for
  // ever.
  void remove();

 private:
  std::shared_ptr<comm::HookList> list_;
  std::shared_ptr<comm::HookEntry> entry_;
};

// Shows a group's calls from now on; those that run are not shown. An empty
// group is the world. Groups split from it have hooks of their own. Without any
// hook a call costs nothing more.
// = PMPI, torchcomms' register_pre_hook, ncclProfiler
// Errors: kNotInitialized.
DISTWRAP_EXPORT absl::StatusOr<Hook> add_hook(const Group& group, Hooks hooks);

}  // namespace distwrap

#endif  // DISTWRAP_HOOKS_H_
