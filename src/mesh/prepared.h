// A plan for one rank: blocks, groups and memory of each step.
//
// Threads: any may run it. The memory in between is kept from run to run; runs
// that overlap in time have their own. Ownership: counted by Redistribution.
#ifndef DISTWRAP_SRC_MESH_PREPARED_H_
#define DISTWRAP_SRC_MESH_PREPARED_H_

#include "distwrap/group.h"
#include "distwrap/plan.h"
#include "distwrap/reduce_op.h"
#include "distwrap/tensor_view.h"
#include "mesh/blocks.h"
#include "mesh/mesh_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::mesh {

class Prepared {
 public:
  static absl::StatusOr<std::shared_ptr<Prepared>> make(const DeviceMesh& mesh,
                                                        const PlanRef& plan,
                                                        DType dtype);
  ~Prepared() { delete[] spare_.load(std::memory_order_acquire); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  const Plan& plan() const { return *plan_; }
  DType dtype() const { return dtype_; }
  int64_t in_count() const { return in_count_; }
  int64_t out_count() const { return out_count_; }

  // `out` and `in` have the right sizes and types.
  absl::Status run(std::byte* out, const std::byte* in,
                   std::optional<absl::Duration> timeout) const;

 private:
  struct Step {
    PlanStep::Kind kind = PlanStep::Kind::kSlice;
    Group group;
    ReduceOp op = ReduceOp::kSum;
    int64_t divisor = 1;
    bool keeps = true;  // in a kFill, whether this rank has the values
    Blocks send, receive;
    int64_t count = 0;  // elements after the step
    std::string label;
  };
  // The memory of one run: results between steps, which take turns in two
  // places, and packed blocks of a step.
  class Staging {
   public:
    explicit Staging(const Prepared& of);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    std::byte* between(size_t which) const {
      return memory_ + which * of_.bytes(of_.between_);
    }
    std::byte* pieces() const { return between(2); }
    std::byte* parts() const { return pieces() + of_.bytes(of_.pieces_); }

   private:
    const Prepared& of_;
    std::byte* memory_ = nullptr;
  };

  Prepared(PlanRef plan, DType dtype) : plan_(std::move(plan)), dtype_(dtype) {}

  absl::Status run_step(const Step& step, std::byte* to, const std::byte* from,
                        int64_t from_count, const Staging& staging,
                        std::optional<absl::Duration> timeout) const;
  TensorView view(const std::byte* data, int64_t count) const;
  size_t bytes(int64_t count) const {
    return static_cast<size_t>(count) * size_;
  }

  const PlanRef plan_;
  const DType dtype_;
  size_t size_ = 1;
  int64_t in_count_ = 0, out_count_ = 0;
  std::vector<Step> steps_;  // none: the part is copied
  // Elements of the largest result between steps, and of packed blocks.
  int64_t between_ = 0, pieces_ = 0, parts_ = 0;
  mutable std::atomic<std::byte*> spare_{nullptr};  // memory of an earlier run
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_PREPARED_H_
