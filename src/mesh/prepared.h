// Blocks, groups and memory of each step by which a rank moves its parts of one
// tensor, or of several at once.
//
// Threads: any may run it. The memory in between is kept from run to run; runs
// that overlap in time have their own. Ownership: counted by Redistribution.
#ifndef DISTWRAP_SRC_MESH_PREPARED_H_
#define DISTWRAP_SRC_MESH_PREPARED_H_

#include "distwrap/group.h"
#include "distwrap/op_options.h"
#include "distwrap/plan.h"
#include "distwrap/reduce_op.h"
#include "distwrap/tensor_view.h"
#include "layout/regions.h"
#include "mesh/blocks.h"
#include "mesh/mesh_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::mesh {

using Shapes = std::vector<std::vector<int64_t>>;

class Prepared {
 public:
  // `plans`: one for each tensor, with equal steps.
  static absl::StatusOr<std::shared_ptr<Prepared>> make(
      const DeviceMesh& mesh, absl::Span<const PlanRef> plans, DType dtype);
  // Between two meshes, of which this rank is in one at least: what is partial
  // is reduced on the first mesh, and made partial on the second.
  static absl::StatusOr<std::shared_ptr<Prepared>> make_between(
      const DeviceMesh& to_mesh, const Layout& to, const DeviceMesh& from_mesh,
      const Layout& from, const std::vector<int64_t>& shape, DType dtype,
      const PlanOptions& options);
  ~Prepared() { delete[] spare_.load(std::memory_order_acquire); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  DType dtype() const { return dtype_; }
  // The elements of this rank's part of each tensor.
  const std::vector<int64_t>& in_counts() const { return in_counts_; }
  const std::vector<int64_t>& out_counts() const { return out_counts_; }

  // The asynchronous redistributions of the mesh that it is on, or from which
  // it leads.
  InOrder& in_order() const { return *in_order_; }

  // One address for each tensor; the parts have the right sizes and types.
  absl::Status run(std::byte* const* out, const std::byte* const* in,
                   std::optional<absl::Duration> timeout) const;

 private:
  // The places of the tensors' elements at one point between two steps.
  using AllRegions = std::vector<std::unique_ptr<layout::Regions>>;

  struct Step {
    PlanStep::Kind kind = PlanStep::Kind::kSlice;
    Group group;
    ReduceOp op = ReduceOp::kSum;
    int64_t divisor = 1;
    bool keeps = true;  // in a kFill, whether this rank has the values
    Blocks send, receive;
    std::vector<int64_t> counts;  // elements of each tensor after the step
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

  Prepared(DType dtype, const DeviceMesh& mesh)
      : dtype_(dtype),
        size_(static_cast<size_t>(dtype_size(dtype))),
        in_order_(mesh.state()->in_order()) {}

  // Add steps to the end.
  absl::Status add_plans(const DeviceMesh& mesh,
                         absl::Span<const PlanRef> plans);
  absl::Status add_exchange(const DeviceMesh& to_mesh, const Layout& to,
                            const DeviceMesh& from_mesh, const Layout& from,
                            const std::vector<int64_t>& shape);
  // Finds out what memory the steps need.
  void finish();

  absl::Status run_step(const Step& step, std::byte* const* to,
                        const std::byte* const* from, const Staging& staging,
                        std::optional<absl::Duration> timeout) const;
  absl::Status communicate(const Step& step, TensorView to, TensorView from,
                           const OpOptions& options) const;
  TensorView view(const std::byte* data, int64_t count) const;
  size_t bytes(int64_t count) const {
    return static_cast<size_t>(count) * size_;
  }

  const DType dtype_;
  const size_t size_;
  const std::shared_ptr<InOrder> in_order_;
  std::vector<int64_t> in_counts_, out_counts_;
  std::vector<Step> steps_;  // none: the parts are copied
  // Elements of the largest result between steps, and of packed blocks.
  int64_t between_ = 0, pieces_ = 0, parts_ = 0;
  mutable std::atomic<std::byte*> spare_{nullptr};  // memory of an earlier run
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_PREPARED_H_
