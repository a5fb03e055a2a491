// The resources of a process, to be compared with an earlier state.
//
// Threads: any. Ownership: a value.
//
//   const Resources before = Resources::now();
//   ...
//   std::string leaked = Resources::now().more_than(before);
#ifndef DISTWRAP_TESTS_CHAOS_RESOURCES_H_
#define DISTWRAP_TESTS_CHAOS_RESOURCES_H_

#include <absl/time/time.h>

#include <cstdint>
#include <string>

namespace distwrap::chaos {

struct Resources {
  int descriptors = 0, threads = 0, shared_mappings = 0;
  int64_t resident_bytes = 0;

  static Resources now();
  // Empty unless there are more resources, beyond the memory that allocators
  // keep.
  std::string more_than(const Resources& before) const;
};

// Compares repeatedly for a while, since some things end in the background.
// Empty when everything is released.
std::string leaked_since(const Resources& before);

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_RESOURCES_H_
