#include "group/guard.h"

#include "base/error.h"
#include "base/guard_door.h"
#include "base/mutex.h"
#include "comm/call_guard.h"
#include "plugin/module_paths.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cxxabi.h>
#include <list>
#include <memory>
#include <stdlib.h>
#include <utility>

namespace distwrap {
namespace {

using base::guard_door;

// Tells the door of a scope that begins or ends.
void count_scope(int32_t change) {
  const auto door = guard_door();
  if (door.ok() && *door != nullptr) (*door)->scope(change);
}

// The wishes of this process's sessions, and the open scopes of all threads.
struct Wishes {
  base::ForkMark process;
  base::Mutex mutex;
  std::array<int, 4> holds ABSL_GUARDED_BY(mutex) = {};
  std::list<std::string> scopes ABSL_GUARDED_BY(mutex);

  GuardMode mode() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (holds[static_cast<size_t>(GuardMode::kRequire)] != 0)
      return GuardMode::kRequire;
    if (holds[static_cast<size_t>(GuardMode::kBlock)] != 0)
      return GuardMode::kBlock;
    return holds[static_cast<size_t>(GuardMode::kWarn)] != 0 ? GuardMode::kWarn
                                                             : GuardMode::kOff;
  }
};

// The child of a fork has no session yet, and begins anew.
Wishes& wishes() {
  static base::Mutex making;
  static Wishes* current = nullptr;
  const base::MutexLock lock(making);
  if (current == nullptr || current->process.is_of_parent())
    current = new Wishes();  // never freed: threads may hold it
  return *current;
}

// The scopes of this thread, innermost last.
using Scope = std::list<std::string>::iterator;
std::vector<std::pair<Wishes*, Scope>>& scopes_of_this_thread() {
  static thread_local std::vector<std::pair<Wishes*, Scope>> scopes;
  return scopes;
}

void set_door(const dw_guard_door& door, GuardMode mode) {
  door.set(mode == GuardMode::kOff    ? DW_DOOR_OPEN
           : mode == GuardMode::kWarn ? DW_DOOR_WARN
                                      : DW_DOOR_BLOCK);
}

// Whether the thread is inside of this library, so that an engine calls.
int32_t is_inside() {
  return base::OwnWork::is_here() || comm::CallGuard::is_in_call() ? 1 : 0;
}

// "gloo::barrier" for a name of C++.
std::string plain_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> made(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &free);
  if (status != 0 || made == nullptr) return symbol;
  const std::string whole = made.get();
  return whole.substr(0, whole.find('('));
}

absl::Status no_door() {
  const std::string path = plugin::guard_path();
  return base::make_error(
      {.reason = Reason::kDirectCall,
       .what = "direct calls cannot be refused: no door is loaded",
       .op = "init",
       .next_step = absl::StrCat(
           "start the program by `distwrap run --guard`, or with LD_PRELOAD=",
           path.empty() ? "libdistwrap_guard.so" : path)});
}

}  // namespace

namespace group {

absl::StatusOr<GuardHold> GuardHold::take(GuardMode mode) {
  if (mode == GuardMode::kOff) return GuardHold();
  const auto door = guard_door();
  if (!door.ok()) return door.status();
  if (*door == nullptr && mode == GuardMode::kRequire) return no_door();
  // The backends that are linked in are engines themselves.
  base::let_module_pass(reinterpret_cast<const void*>(&count_scope));
  Wishes& all = wishes();
  const base::MutexLock lock(all.mutex);
  ++all.holds[static_cast<size_t>(mode)];
  if (*door != nullptr) {
    (*door)->set_inside(&is_inside);
    set_door(**door, all.mode());
  }
  return GuardHold(mode);
}

GuardHold::~GuardHold() {
  if (mode_ == GuardMode::kOff || process_.is_of_parent()) return;
  Wishes& all = wishes();
  const base::MutexLock lock(all.mutex);
  --all.holds[static_cast<size_t>(mode_)];
  const auto door = guard_door();
  if (door.ok() && *door != nullptr) set_door(**door, all.mode());
}

}  // namespace group

void guard_enter(absl::string_view reason) {
  Wishes& all = wishes();
  {
    const base::MutexLock lock(all.mutex);
    scopes_of_this_thread().emplace_back(
        &all, all.scopes.insert(all.scopes.end(), std::string(reason)));
  }
  count_scope(1);
}

absl::Status guard_leave() {
  auto& mine = scopes_of_this_thread();
  if (mine.empty())
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = "this thread has no open scope",
         .op = "guard_leave",
         .next_step = "leave once for each guard_enter, in the same thread"});
  count_scope(-1);
  const auto [all, scope] = mine.back();
  mine.pop_back();
  const base::MutexLock lock(all->mutex);
  all->scopes.erase(scope);
  return absl::OkStatus();
}

void guard_exempt(absl::string_view prefix) {
  const auto door = guard_door();
  if (door.ok() && *door != nullptr)
    (*door)->exempt_name(std::string(prefix).c_str());
}

GuardAllow::GuardAllow(absl::string_view reason) { guard_enter(reason); }
GuardAllow::~GuardAllow() { guard_leave().IgnoreError(); }

GuardStatus guard_status() {
  GuardStatus status;
  {
    Wishes& all = wishes();
    const base::MutexLock lock(all.mutex);
    status.mode = all.mode();
    status.scopes.assign(all.scopes.begin(), all.scopes.end());
  }
  const auto door = guard_door();
  if (!door.ok() || *door == nullptr) return status;
  status.door = base::guard_door_file();
  status.functions.reserve((*door)->calls);
  for (uint32_t i = 0; i < (*door)->calls; ++i) {
    dw_guarded_call call = {};
    (*door)->read(i, &call);
    status.functions.push_back(
        {call.library, plain_name(call.name), call.instead, call.refused});
    if (call.refused != 0) status.refusals.push_back(status.functions.back());
  }
  return status;
}

}  // namespace distwrap
