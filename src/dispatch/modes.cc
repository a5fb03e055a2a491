// Modes: the modes of each thread, and the kernel that runs them.
//
// A thread's modes are an immutable list, so that a captured state costs one
// reference. The newest mode that is on comes first; turning a mode off, while
// it runs, is a shorter list.
#include "dispatch/fail.h"
#include "dispatch/registry.h"
#include "distwrap/mode.h"
#include "distwrap/registration.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <mutex>
#include <utility>

namespace distwrap::dispatch {
namespace {

// A mode whose code a library counts.
struct HeldMode {
  HeldMode(std::unique_ptr<Mode> held, std::atomic<int64_t>* count)
      : mode(std::move(held)), objects(count) {
    if (objects != nullptr) objects->fetch_add(1, std::memory_order_relaxed);
  }
  ~HeldMode() {
    mode.reset();
    // The library may go as soon as its last object is counted off.
    if (objects != nullptr) objects->fetch_sub(1, std::memory_order_release);
  }
  HeldMode(const HeldMode&) = delete;
  HeldMode& operator=(const HeldMode&) = delete;

  std::unique_ptr<Mode> mode;
  std::atomic<int64_t>* const objects;
};

}  // namespace

struct ModeStack {
  Key key;
  int slot;  // a slot of kPreDispatch; -1 for other keys
  std::shared_ptr<HeldMode> held;
  std::shared_ptr<const ModeStack> next;
};

namespace {

using Link = std::shared_ptr<const ModeStack>;

Link& modes() {
  static thread_local Link list;
  return list;
}

void set_modes(Link list) {
  modes() = std::move(list);
  thread_keys.modes = modes() != nullptr;
}

// The mode of a key that runs first. Of kPreDispatch that is the functional
// one.
const ModeStack* first_of(Key key) {
  const ModeStack* found = nullptr;
  for (const ModeStack* one = modes().get(); one != nullptr;
       one = one->next.get()) {
    if (one->key == key && (found == nullptr || one->slot > found->slot)) {
      found = one;
    }
  }
  return found;
}

// The list without one mode.
Link without(const Link& list, const ModeStack* mode) {
  if (list == nullptr || list.get() == mode) {
    return list == nullptr ? nullptr : list->next;
  }
  auto copy = std::make_shared<ModeStack>(*list);
  copy->next = without(list->next, mode);
  return copy;
}

// Turns a mode off, and its key where it was the key's last mode.
class ModeOff {
 public:
  explicit ModeOff(const ModeStack* mode)
      : before_(modes()), include_(thread_keys.include) {
    set_modes(without(before_, mode));
    if (first_of(mode->key) == nullptr) {
      thread_keys.include &= ~KeySet(mode->key).bits();
    }
  }
  ~ModeOff() {
    set_modes(std::move(before_));
    thread_keys.include = include_;
  }
  ModeOff(const ModeOff&) = delete;
  ModeOff& operator=(const ModeOff&) = delete;

 private:
  Link before_;
  const uint64_t include_;
};

absl::Status run_mode(const OpHandle& op, KeySet set, Stack& stack) {
  const Key key = set.highest();
  const ModeStack* const first = first_of(key);
  if (first == nullptr) return op.redispatch_boxed(set.below(key), stack);
  const std::shared_ptr<HeldMode> held = first->held;
  const ModeOff off(first);
  return held->mode->run(op, set, stack);
}

constexpr std::array kModeKeys = {kUser1, kUser2, kUser3, kUser4};

// Makes run_mode the fallback of a user key, at the first mode. A key without
// modes stays one without anything to do.
absl::Status serve_modes(Key key) {
  static std::mutex mutex;
  static auto* const served = new std::array<Registration, kModeKeys.size()>;
  static std::array<bool, kModeKeys.size()> done{};
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < kModeKeys.size(); ++i) {
    if (kModeKeys[i] != key) continue;
    if (done[i]) return absl::OkStatus();
    absl::StatusOr<Registration> made = fallback(key, boxed(&run_mode));
    if (!made.ok()) return std::move(made).status();
    (*served)[i] = *std::move(made);
    done[i] = true;
    return absl::OkStatus();
  }
  return bad_argument("ModeGuard", "the key has no modes",
                      "User1 to User4, or a slot of PreDispatch",
                      key_name(key));
}

}  // namespace

Mode::~Mode() = default;

ModeGuard::ModeGuard(Key key, int slot, std::unique_ptr<Mode> mode,
                     std::atomic<int64_t>* objects)
    : before_(modes()) {
  if (slot < 0) status_ = serve_modes(key);
  for (const ModeStack* one = before_.get(); slot >= 0 && one != nullptr;
       one = one->next.get()) {
    if (one->key == key && one->slot == slot) {
      status_ = make_error({.reason = Reason::kDuplicate,
                            .what = "the slot of PreDispatch has a mode",
                            .op = "ModeGuard"});
    }
  }
  auto held = std::make_shared<HeldMode>(std::move(mode), objects);
  if (!status_.ok()) return;
  set_modes(std::make_shared<ModeStack>(
      ModeStack{key, slot, std::move(held), before_}));
  added_ = KeySet(key).bits() & ~thread_keys.include;
  thread_keys.include |= added_;
}

ModeGuard::~ModeGuard() {
  if (!status_.ok()) return;
  set_modes(std::move(before_));
  thread_keys.include &= ~added_;
}

std::shared_ptr<const ModeStack> modes_of_thread() { return modes(); }
void set_modes_of_thread(std::shared_ptr<const ModeStack> list) {
  set_modes(std::move(list));
}

DW_OPERATORS(lib) { lib.fallback(kPreDispatch, boxed(&run_mode)); }

}  // namespace distwrap::dispatch
