#include "comm/hooks.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/op_shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cxxabi.h>
#include <exception>
#include <utility>

namespace distwrap::comm {
namespace {

std::atomic<uint64_t> next_id{1};

// Runs a program's hook. Returns the text of the exception that it threw; empty
// for none.
template <class Body>
std::string text_thrown(const Body& body) {
  try {
    body();
    return {};
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled
  } catch (const std::exception& thrown) {
    return absl::StrCat("an exception: ", thrown.what());
  } catch (...) {
    return "an exception";
  }
}

template <class Body>
void run_contained(const char* which, const Body& body) {
  const std::string thrown = text_thrown(body);
  if (!thrown.empty())
    base::log(base::LogLevel::kError,
              absl::StrCat("the ", which, " of a hook threw: ", thrown));
}

}  // namespace

thread_local int HookList::hidden_ = 0;

// A thread in a hook; those of one thread form a list, the innermost first.
struct HookEntry::Inside {
  explicit Inside(HookEntry& of) : entry(of), outer(innermost) {
    innermost = this;
  }
  ~Inside() {
    innermost = outer;
    Hooks gone;  // destroyed, with what they captured, without the lock
    base::MutexLock lock(entry.mutex_);
    --entry.inside_;
    if (!entry.removed_) return;
    // A thread that waits removes the entry itself: afterwards it is not in
    // use.
    if (entry.inside_ == 0 && entry.waiting_ == 0)
      std::swap(gone, entry.hooks_);
    entry.left_.notify_all();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static int times(const HookEntry& wanted) {
    int n = 0;
    for (const Inside* one = innermost; one != nullptr; one = one->outer)
      n += &one->entry == &wanted ? 1 : 0;
    return n;
  }

  HookEntry& entry;
  Inside* const outer;
  static thread_local Inside* innermost;
};

thread_local HookEntry::Inside* HookEntry::Inside::innermost = nullptr;

bool HookEntry::run(absl::FunctionRef<void(const Hooks&)> body) {
  if (Inside::times(*this) != 0) return false;
  {
    base::MutexLock lock(mutex_);
    if (removed_) return false;
    ++inside_;
  }
  const Inside inside(*this);
  body(hooks_);
  return true;
}

void HookEntry::remove() {
  const int own = Inside::times(*this);
  Hooks gone;
  base::MutexLock lock(mutex_);
  removed_ = true;
  ++waiting_;
  while (inside_ > own) left_.wait(mutex_);
  --waiting_;
  if (inside_ == 0) std::swap(gone, hooks_);
}

std::shared_ptr<HookEntry> HookList::add(Hooks hooks) {
  auto entry = std::make_shared<HookEntry>(std::move(hooks));
  base::MutexLock lock(mutex_);
  entries_.push_back(entry);
  any_.store(true, std::memory_order_release);
  if (entries_.size() == 1)
    for (BiasedLock* const one : locks_) one->watch(true);
  return entry;
}

void HookList::remove(HookEntry& entry) {
  {
    base::MutexLock lock(mutex_);
    const auto it =
        std::find_if(entries_.begin(), entries_.end(),
                     [&](const auto& one) { return one.get() == &entry; });
    if (it != entries_.end()) {
      entries_.erase(it);
      if (entries_.empty()) {
        any_.store(false, std::memory_order_release);
        for (BiasedLock* const one : locks_) one->watch(false);
      }
    }
  }
  entry.remove();
}

HookList::Entries HookList::entries() const {
  base::MutexLock lock(mutex_);
  return entries_;
}

void HookList::attach(BiasedLock& added) {
  base::MutexLock lock(mutex_);
  locks_.push_back(&added);
  if (!entries_.empty()) added.watch(true);
}

void HookList::detach(BiasedLock& removed) {
  base::MutexLock lock(mutex_);
  locks_.erase(std::remove(locks_.begin(), locks_.end(), &removed),
               locks_.end());
}

void HookList::broke(const absl::Status& cause, CallbackThread& callbacks) {
  if (broken_.exchange(true, std::memory_order_acq_rel)) return;
  Entries told = entries();
  if (told.empty()) return;
  callbacks.post([told = std::move(told), owner = owner_, cause] {
    const BrokenGroup group{owner.name, owner.uid, owner.rank, owner.size};
    for (const auto& entry : told)
      entry->run([&](const Hooks& hooks) {
        if (hooks.abort)
          run_contained("abort", [&] { hooks.abort(group, cause); });
      });
  });
}

void HookList::waits(GroupBoard::Stuck stuck, CallbackThread& callbacks) {
  Entries told = entries();
  if (told.empty()) return;
  callbacks.post(
      [told = std::move(told), owner = owner_, stuck = std::move(stuck)] {
        const Straggling straggling{.group = owner.name,
                                    .group_uid = owner.uid,
                                    .rank = owner.rank,
                                    .group_size = owner.size,
                                    .op = stuck.op,
                                    .seq = stuck.seq,
                                    .label = stuck.label,
                                    .waited = stuck.waited,
                                    .missing = stuck.missing,
                                    .logged = stuck.speaks,
                                    .text = stuck.text};
        for (const auto& entry : told)
          entry->run([&](const Hooks& hooks) {
            if (hooks.straggler)
              run_contained("straggler", [&] { hooks.straggler(straggling); });
          });
      });
}

HookRun::HookRun(std::shared_ptr<HookList> list) : list_(std::move(list)) {
  const HookList::Owner& owner = list_->owner();
  call_.id = next_id.fetch_add(1, std::memory_order_relaxed);
  call_.group = owner.name;
  call_.group_uid = owner.uid;
  call_.rank = owner.rank;
  call_.group_size = owner.size;
}

void HookRun::describe(const dw_op& op, const ReduceOp& reduction,
                       absl::string_view label, Device device) {
  const OpShape& shape = op_shape(op.kind);
  const int size = call_.group_size;
  inputs_ = views_of(op.in, size, device);
  for (TensorView& view : inputs_) view = view.as_read_only();
  outputs_ = views_of(op.out, size, device);
  const auto keep = [&](const int64_t* from, std::vector<int64_t>& own) {
    if (from != nullptr && (op.flags & DW_FLAG_PARTS) == 0)
      own.assign(from, from + size);
    return absl::MakeConstSpan(own);
  };
  call_.op = shape.name;
  call_.kind = op.kind;
  call_.inputs = inputs_;
  call_.outputs = outputs_;
  call_.in_counts = keep(op.in.counts, counts_[0]);
  call_.in_displs = keep(op.in.displs, counts_[1]);
  call_.out_counts = keep(op.out.counts, counts_[2]);
  call_.out_displs = keep(op.out.displs, counts_[3]);
  call_.reduces = shape.reduces();
  call_.reduction = reduction;
  call_.exclusive = (op.flags & DW_FLAG_EXCLUSIVE) != 0;
  call_.in_place = (op.flags & DW_FLAG_IN_PLACE) != 0;
  call_.peer = shape.peer == PeerRole::NO ? -1 : op.peer;
  call_.tag = shape.collective() ? 0 : static_cast<int64_t>(op.tag);
  call_.stream = {{op.stream.device_type, op.stream.device_id},
                  op.stream.native};
  if (op.timeout_ns != 0) call_.timeout = absl::Nanoseconds(op.timeout_ns);
  label_ = std::string(label);
  call_.label = label_;
}

absl::Status HookRun::pre() {
  for (auto& entry : list_->entries()) {
    absl::Status status;
    const bool reached = entry->run([&](const Hooks& hooks) {
      if (!hooks.pre) return;
      const std::string thrown =
          text_thrown([&] { status = hooks.pre(call_); });
      if (!thrown.empty()) status = absl::UnknownError(thrown);
    });
    if (!reached) continue;
    reached_.push_back(std::move(entry));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void HookRun::post(const absl::Status& status) {
  for (const auto& entry : reached_)
    entry->run([&](const Hooks& hooks) {
      if (hooks.post) run_contained("post", [&] { hooks.post(call_, status); });
    });
}

void HookRun::completes(const Work& work) {
  if (reached_.empty()) return;
  work.on_done([self = shared_from_this()](const absl::Status& status) {
    for (const auto& entry : self->reached_)
      entry->run([&](const Hooks& hooks) {
        if (hooks.completion)
          run_contained("completion",
                        [&] { hooks.completion(self->call_, status); });
      });
  });
}

ErrorInfo HookRun::refusal(const absl::Status& refused) const {
  ErrorInfo info = error_info(refused).value_or(
      ErrorInfo{.reason = Reason::kAborted,
                .what = std::string(refused.message()),
                .next_step = "ask who added the hook to the group"});
  info.what = absl::StrCat("a hook refused the call: ", info.what);
  info.op = std::string(call_.op);
  info.group = std::string(call_.group);
  info.my_rank = call_.rank;
  info.group_size = call_.group_size;
  info.label = std::string(call_.label);
  return info;
}

}  // namespace distwrap::comm

namespace distwrap {

Hook::Hook(std::shared_ptr<comm::HookList> list,
           std::shared_ptr<comm::HookEntry> entry)
    : list_(std::move(list)), entry_(std::move(entry)) {}
Hook::~Hook() { remove(); }
Hook::Hook(Hook&& other) noexcept = default;
Hook& Hook::operator=(Hook&& other) noexcept {
  std::swap(list_, other.list_);
  std::swap(entry_, other.entry_);
  return *this;
}

void Hook::remove() {
  const auto list = std::move(list_);
  const auto entry = std::move(entry_);
  if (entry != nullptr) list->remove(*entry);
}

}  // namespace distwrap
