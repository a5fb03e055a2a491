// A group's hooks (distwrap/hooks.h), and their part in one call.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_HOOKS_H_
#define DISTWRAP_SRC_COMM_HOOKS_H_

#include "base/mutex.h"
#include "comm/board/lane.h"
#include "comm/callback_thread.h"
#include "comm/op_build.h"
#include "comm/seat.h"
#include "distwrap/hooks.h"
#include "distwrap/work.h"

#include <absl/functional/function_ref.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::comm {

// One hook, and who is in it.
class HookEntry {
 public:
  explicit HookEntry(Hooks hooks) : hooks_(std::move(hooks)) {}
  HookEntry(const HookEntry&) = delete;
  HookEntry& operator=(const HookEntry&) = delete;

  // False, and nothing was run, once it is removed, and for a thread that is in
  // this hook already.
  bool run(absl::FunctionRef<void(const Hooks&)> body);
  // Waits for other threads.
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

  // Whose hooks they are.
  struct Owner {
    std::string name;
    uint64_t uid = 0;
    int rank = 0, size = 1;
  };

  explicit HookList(Owner owner) : owner_(std::move(owner)) {}

  // Afterwards every call is shown to it.
  std::shared_ptr<HookEntry> add(Hooks hooks);
  // Afterwards it runs in no other thread, and in none again.
  void remove(HookEntry& entry);

  // Whether a call of this thread has somebody to be shown to.
  bool wanted() const {
    return any_.load(std::memory_order_acquire) && hidden_ == 0;
  }
  Entries entries() const;
  const Owner& owner() const { return owner_; }

  // The seat of a communicator whose calls are shown, until it is detached.
  void attach(Seat& seat);
  void detach(Seat& seat);

  // The group has broken; the first time counts.
  void broke(const absl::Status& cause, CallbackThread& callbacks);

  // This rank waits for others.
  void waits(Lane::Stuck stuck, CallbackThread& callbacks);

  // While it lives, the calls of this thread are shown to nobody: they are the
  // steps of one that is.
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
  std::vector<Seat*> seats_ ABSL_GUARDED_BY(mutex_);
};

// One call that is shown.
class HookRun : public std::enable_shared_from_this<HookRun> {
 public:
  explicit HookRun(std::shared_ptr<HookList> list);

  // To be filled in before `pre`.
  HookedCall& call() { return call_; }
  // Fills it in from an operation.
  void describe(const dw_op& op, const ReduceOp& reduction,
                absl::string_view label, Device device);

  // The error of the hook that refuses.
  absl::Status pre();
  // To those that `pre` reached.
  void post(const absl::Status& status);
  // Has them told of the end of what was begun.
  void completes(const Work& work);

  // What the refusal of a hook becomes.
  ErrorInfo refusal(const absl::Status& refused) const;

 private:
  const std::shared_ptr<HookList> list_;
  HookList::Entries reached_;
  HookedCall call_;
  // What `call_` shows, kept to the end of an asynchronous operation.
  std::vector<TensorView> inputs_, outputs_;
  std::vector<int64_t> counts_[4];
  std::string label_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_HOOKS_H_
