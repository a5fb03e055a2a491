// The backends that are tested.
#ifndef DISTWRAP_TESTS_CONFORMANCE_SUBJECTS_H_
#define DISTWRAP_TESTS_CONFORMANCE_SUBJECTS_H_

#include "distwrap/abi/plugin.h"
#include "team.h"

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::conformance {

struct Subject {
  std::string name;
  const dw_backend_api& (*table)();
  std::vector<int> sizes;
  // The plugin with this backend: the N of libdistwrap_N.so.
  std::string module = "";
  // Whether it has every operation; how many threads a communicator may add.
  bool complete = false;
  int threads = 1;
  uint64_t (*bytes_sent)() = nullptr;
  // Whether buffers of more than 2^31 bytes are tested as well.
  bool moves_large = false;
  bool delivers_first = false;  // taken from Limits
};

std::vector<Subject> subjects();

// The subject's limits, with the seed of this run.
Limits limits_of(const Subject& subject);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_SUBJECTS_H_
