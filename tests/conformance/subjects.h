// The backends that are checked.
#ifndef DISTWRAP_TESTS_CONFORMANCE_SUBJECTS_H_
#define DISTWRAP_TESTS_CONFORMANCE_SUBJECTS_H_

#include "distwrap/abi/plugin.h"

#include <vector>

namespace distwrap::conformance {

struct Subject {
  const char* name;
  dw_plugin_query_fn linked_in;
  std::vector<int> sizes;
};

std::vector<Subject> subjects();

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_SUBJECTS_H_
