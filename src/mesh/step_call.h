// The collective of a step, which is prepared at its first start. Every rank
// knows what all ranks give in it, so none has to tell the others.
//
// Threads: any may start it, in the order of collectives. Ownership: a value
// that keeps its group.
#ifndef DISTWRAP_SRC_MESH_STEP_CALL_H_
#define DISTWRAP_SRC_MESH_STEP_CALL_H_

#include "comm/communicator.h"
#include "distwrap/group.h"
#include "distwrap/tensor_view.h"

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace distwrap::mesh {

// A hash that is equal in all processes; not 0.
uint64_t fingerprint_of(absl::string_view text);

class StepCall {
 public:
  // `fingerprint`: a hash of what all ranks know, not 0.
  StepCall(Group group, uint64_t fingerprint)
      : group_(std::move(group)), fingerprint_(fingerprint) {}
  ~StepCall() { delete call_.load(std::memory_order_acquire); }
  // Whether the group's backend moves blocks (distwrap/abi/blocks.h) from where
  // they lie to where they belong, in an all_to_all or an all_gather. Equal on
  // all ranks.
  static bool moves_blocks(const Group& group, uint16_t kind);
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;

  struct Arguments {
    uint16_t kind = 0;
    comm::AnyCall call = {};
  };
  // Runs it on these buffers. `describe` is asked at the first start.
  absl::Status run(TensorView to, TensorView from, const CallOptions& options,
                   absl::FunctionRef<Arguments()> describe) const;

 private:
  absl::StatusOr<const comm::PreparedCall*> prepare(
      const CallOptions& options,
      absl::FunctionRef<Arguments()> describe) const;

  const Group group_;
  const uint64_t fingerprint_;
  mutable std::atomic<const comm::PreparedCall*> call_{nullptr};
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_STEP_CALL_H_
