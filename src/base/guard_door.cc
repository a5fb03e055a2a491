#include "base/guard_door.h"

#include "base/error.h"
#include "base/settings.h"
#include "sdk/loaded_file.h"

#include <absl/strings/str_cat.h>

#include <cstring>
#include <dlfcn.h>

namespace distwrap::base {
namespace {

dw_guard_door_fn find() {
  // A preloaded library is in the scope of every search.
  static const dw_guard_door_fn kFound = [] {
    void* const symbol = dlsym(RTLD_DEFAULT, DW_GUARD_DOOR_NAME);
    dw_guard_door_fn function = nullptr;
    memcpy(&function, &symbol, sizeof function);
    return function;
  }();
  return kFound;
}

}  // namespace

std::string guard_door_file() {
  const dw_guard_door_fn door = find();
  return door == nullptr ? ""
                         : dw_sdk::file_of(reinterpret_cast<const void*>(door));
}

absl::StatusOr<const dw_guard_door*> guard_door() {
  const dw_guard_door_fn function = find();
  if (function == nullptr) return nullptr;
  const dw_guard_door* const door = function();
  if (door->version == DW_GUARD_DOOR_VERSION &&
      door->release == library_version())
    return door;
  return make_error(
      {.reason = Reason::kDirectCall,
       .what = "the preloaded door is of another version",
       .op = "init",
       .expected =
           absl::StrCat(library_version(), " as ",
                        dw_sdk::file_of(reinterpret_cast<void*>(&guard_door))),
       .actual = absl::StrCat(door->release, " from ", guard_door_file()),
       .next_step = "preload the door of this installation, whose path "
                    "`distwrap info` shows"});
}

void let_module_pass(const void* address) {
  const auto door = guard_door();
  if (door.ok() && *door != nullptr) (*door)->exempt_module_of(address);
}

}  // namespace distwrap::base
