// A group's hooks (distwrap/hooks.h), and their part in one call.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_HOOKS_H_
#define DISTWRAP_SRC_COMM_HOOKS_H_

#include "base/mutex.h"
#include "comm/biased_lock.h"
#include "comm/board/group_board.h"
#include "comm/callback_thread.h"
#include "comm/op_build.h"
#include "distwrap/hooks.h"
#include "distwrap/work.h"

#include <absl/functional/function_ref.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::comm {

// One hook, and the threads that are in it.
class HookEntry {
 public:
  explicit HookEntry(Hooks hooks) : hooks_(std::move(hooks)) {}
  HookEntry(const HookEntry&) = delete;
  HookEntry& operator=(const HookEntry&) = delete;

  // Runs `body`. Returns false without running it when the hook was removed, or
  // when this thread is in the hook already.
  bool run(absl::FunctionRef<void(const Hooks&)> body);
  // Removes the hook; waits until no other thread is in it.
  void remove();

 private:
  struct Inside;

  base::Mutex mutex_;
  base::CondVar left_;
  Hooks hooks_;  // constant until it is removed and nobody is inside
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool removed_ ABSL_GUARDED_BY(mutex_) = false;
};

class HookList {
 public:
  using Entries = std::vector<std::shared_ptr<HookEntry>>;

  // The group whose hooks these are.
  struct Owner {
    std::string name;
    uint64_t uid = 0;
    int rank = 0, size = 1;
  };

  explicit HookList(Owner owner) : owner_(std::move(owner)) {}

  // Adds a hook. When this returns, every call is shown to it.
  std::shared_ptr<HookEntry> add(Hooks hooks);
  // Removes a hook. When this returns, it runs in no other thread, and is not
  // called again.
  void remove(HookEntry& entry);

  // Whether a call of this thread has to be shown to a hook.
  bool wanted() const {
    return any_.load(std::memory_order_acquire) && hidden_ == 0;
  }
  Entries entries() const;
  const Owner& owner() const { return owner_; }

  // The lock of a communicator whose calls are shown, until it is detached.
  void attach(BiasedLock& added);
  void detach(BiasedLock& removed);

  // Shows that the group has broken; only the first call counts.
  void broke(const absl::Status& cause, CallbackThread& callbacks);

  // Shows that this rank waits for others.
  void waits(GroupBoard::Stuck stuck, CallbackThread& callbacks);

  // While it lives, the calls of this thread are not shown: they are steps of a
  // call that is.
  class Hidden {
   public:
    Hidden() { ++hidden_; }
    ~Hidden() { --hidden_; }
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;
  };

 private:
  static thread_local int hidden_;

  const Owner owner_;
  std::atomic<bool> any_{false}, broken_{false};
  mutable base::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<BiasedLock*> locks_ ABSL_GUARDED_BY(mutex_);
};

// One call that is shown.
class HookRun : public std::enable_shared_from_this<HookRun> {
 public:
  explicit HookRun(std::shared_ptr<HookList> list);

  // The call, which is filled in before `pre`.
  HookedCall& call() { return call_; }
  // Fills it in from an operation.
  void describe(const dw_op& op, const ReduceOp& reduction,
                absl::string_view label, Device device);

  // Calls the hooks. Returns the error of a hook that refuses.
  absl::Status pre();
  // Calls `post` of the hooks that `pre` reached.
  void post(const absl::Status& status);
  // Lets the hooks be told of the end of a started operation.
  void completes(const Work& work);

  // The error of a call that a hook refused.
  ErrorInfo refusal(const absl::Status& refused) const;

 private:
  const std::shared_ptr<HookList> list_;
  HookList::Entries reached_;
  HookedCall call_;
  // The views that `call_` shows, kept to the end of an asynchronous operation.
  std::vector<TensorView> inputs_, outputs_;
  std::vector<int64_t> counts_[4];
  std::string label_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_HOOKS_H_
