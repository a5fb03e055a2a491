#include "distwrap/hooks.h"

#include "base/exceptions.h"
#include "comm/hooks.h"
#include "facade/binding.h"

#include <utility>

namespace distwrap {

absl::StatusOr<Hook> add_hook(const Group& group, Hooks hooks) try {
  const auto state = facade::group_for(group, "add_hook");
  if (!state.ok()) return state.status();
  const std::shared_ptr<comm::HookList>& list = (*state)->hooks();
  return Hook(list, list->add(std::move(hooks)));
} catch (...) {
  return base::error_of_exception("add_hook");
}

}  // namespace distwrap
