// The parts of a composed operation, repeated one after the other on memory of
// their own, with nothing between them.
//
// Threads: one. Ownership: owns the memory; borrows the communicators below.
#ifndef DISTWRAP_TESTS_COMPOSED_REPLAY_H_
#define DISTWRAP_TESTS_COMPOSED_REPLAY_H_

#include "composed/tape.h"

#include <absl/status/status.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

namespace distwrap::composed {

class Replay {
 public:
  // Loads the steps of `ranks` ranks. kUnimplemented for steps that end after
  // their call and for lists of addresses.
  absl::Status load(std::vector<Step> steps, int ranks);
  // Runs all steps, each to its end.
  absl::Status run();
  size_t parts() const { return parts_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  // Memory in place of the memory at `original`, at least `bytes` large.
  void* stand_in(const void* original, uint64_t bytes);

  std::vector<Step> steps_;
  std::vector<std::vector<dw_group_item>> items_;  // by step
  std::map<const void*, std::pair<uint64_t, std::unique_ptr<std::byte, Free>>>
      memory_;
  uint64_t runs_ = 0;
  size_t parts_ = 0;
};

}  // namespace distwrap::composed

#endif  // DISTWRAP_TESTS_COMPOSED_REPLAY_H_
