// Moving a tensor's parts from one layout to another.
//
// Threads: any; ranks match redistributions of a mesh by the order of the
// calls. Ownership: buffers are borrowed for the call. The source is never
// written; the target is undefined after an error.
//
//   distwrap::redistribute(mesh, out_view, **rows, in_view, **columns,
//                          {1024, 1024});
#ifndef DISTWRAP_REDISTRIBUTE_H_
#define DISTWRAP_REDISTRIBUTE_H_

#include "distwrap/export.h"
#include "distwrap/mesh.h"
#include "distwrap/plan.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace distwrap {

struct RedistributeOptions {
  PlanMode mode = PlanMode::kFastest;
  int64_t cap_bytes = int64_t{16} << 20;  // as PlanOptions
  // The float in which values travel, all of them, also those that a rank
  // keeps, so that replicas stay equal; reductions add in it. Unset: the
  // tensor's own type. Ignored where nothing is sent, and for norms.
  std::optional<DType> wire_dtype = std::nullopt;
  // The time limit of the whole call; unset: that of each group.
  std::optional<absl::Duration> timeout = std::nullopt;
};

namespace mesh {
class Prepared;
}

// A redistribution of one tensor or of several, made ready for one rank and one
// element type: what the rank sends to whom is known, and the groups exist.
class DISTWRAP_EXPORT Redistribution {
 public:
  Redistribution() = default;
  // One tensor on one mesh. Members of the plan's groups make them here, so
  // every rank of the mesh calls. `wire_dtype` as in RedistributeOptions; the
  // plan is for elements of its size. kMeshMismatch: a plan for another mesh,
  // or a rank outside. kInvalidArgument: elements of another size than the
  // plan's, a wire type where one of the two is no float, a norm of integers.
  static absl::StatusOr<Redistribution> prepare(
      const DeviceMesh& mesh, const PlanRef& plan, DType dtype,
      std::optional<DType> wire_dtype = std::nullopt);
  // Several tensors by the same steps: each step is one collective for all of
  // them. kInvalidArgument: no plan, or plans whose steps differ.
  static absl::StatusOr<Redistribution> prepare_many(
      const DeviceMesh& mesh, absl::Span<const PlanRef> plans, DType dtype,
      std::optional<DType> wire_dtype = std::nullopt);
  // One tensor from a mesh to another one. They may have all ranks in common,
  // some or none, and every rank of either calls. What is partial is reduced on
  // the first mesh before it is sent, and becomes partial on the second. Errors
  // as redistribute_between.
  static absl::StatusOr<Redistribution> prepare_between(
      const DeviceMesh& to_mesh, const Layout& to, const DeviceMesh& from_mesh,
      const Layout& from, absl::Span<const int64_t> shape, DType dtype,
      const RedistributeOptions& options = {});

  // Moves the parts. `in` and `out` are this rank's parts, and lie in separate
  // memory. A strided part costs a copy; its elements count row-major.
  // kLayoutMismatch: a part of another size than the layout's.
  absl::Status run(TensorView out, TensorView in,
                   std::optional<absl::Duration> timeout = std::nullopt) const {
    return run_many({&out, 1}, {&in, 1}, timeout);
  }
  // One part for each tensor. kInvalidArgument: another number of parts.
  absl::Status run_many(
      absl::Span<const TensorView> outs, absl::Span<const TensorView> ins,
      std::optional<absl::Duration> timeout = std::nullopt) const;
  // Starts what run_many does, without waiting. The buffers have to live until
  // the Work has ended; its result is the targets. The redistributions of a
  // mesh run one after the other in the order in which they are started, also
  // those that wait. Beside them the program may use the mesh's groups for
  // nothing else.
  absl::StatusOr<Work> start(
      absl::Span<const TensorView> outs, absl::Span<const TensorView> ins,
      std::optional<absl::Duration> timeout = std::nullopt) const;

 private:
  friend DISTWRAP_EXPORT absl::Status redistribute_many(
      const DeviceMesh& mesh, absl::Span<const TensorView> outs,
      const Layout& to, absl::Span<const TensorView> ins, const Layout& from,
      absl::Span<const std::vector<int64_t>> shapes,
      const RedistributeOptions& options);
  explicit Redistribution(std::shared_ptr<mesh::Prepared> prepared)
      : prepared_(std::move(prepared)) {}
  absl::Status check(absl::Span<const TensorView> outs,
                     absl::Span<const TensorView> ins) const;
  std::shared_ptr<mesh::Prepared> prepared_;
};

// Plans, prepares and runs; the mesh remembers what it has prepared. All ranks
// of the mesh call with equal arguments, but for their parts.
DISTWRAP_EXPORT absl::Status redistribute(
    const DeviceMesh& mesh, TensorView out, const Layout& to, TensorView in,
    const Layout& from, absl::Span<const int64_t> shape,
    const RedistributeOptions& options = {});

// Starts a redistribution without waiting, as Redistribution::start says. What
// is prepared for the first time is prepared by this call.
DISTWRAP_EXPORT absl::StatusOr<Work> redistribute_async(
    const DeviceMesh& mesh, TensorView out, const Layout& to, TensorView in,
    const Layout& from, absl::Span<const int64_t> shape,
    const RedistributeOptions& options = {});

// Redistributes several tensors of one element type, with a shape for each.
// Tensors whose plans have equal steps share each collective, so many small
// ones pay for one exchange instead of one each; large ones go alone where the
// backend then need not pack them. kInvalidArgument: lists of different
// lengths, or tensors of different types.
DISTWRAP_EXPORT absl::Status redistribute_many(
    const DeviceMesh& mesh, absl::Span<const TensorView> outs, const Layout& to,
    absl::Span<const TensorView> ins, const Layout& from,
    absl::Span<const std::vector<int64_t>> shapes,
    const RedistributeOptions& options = {});

// Moves a tensor from a mesh to another one, as Redistribution::prepare_between
// says; `from_mesh` remembers it. A rank outside of a mesh gives a part without
// elements there. Each rank gets every element of its part once, from itself
// where it has it. kMeshMismatch: a layout on another mesh, or a rank outside
// of both.
DISTWRAP_EXPORT absl::Status redistribute_between(
    const DeviceMesh& to_mesh, TensorView out, const Layout& to,
    const DeviceMesh& from_mesh, TensorView in, const Layout& from,
    absl::Span<const int64_t> shape, const RedistributeOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_REDISTRIBUTE_H_
