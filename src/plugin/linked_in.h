// The backends that are part of this library, as DISTWRAP_LINKED_BACKENDS chose
// them at build time.
#ifndef DISTWRAP_SRC_PLUGIN_LINKED_IN_H_
#define DISTWRAP_SRC_PLUGIN_LINKED_IN_H_

#include "distwrap/abi/plugin.h"

#include <absl/types/span.h>

namespace distwrap::plugin {

struct LinkedIn {
  const char* name;
  dw_plugin_query_fn query;
};

absl::Span<const LinkedIn> linked_in();

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_LINKED_IN_H_
