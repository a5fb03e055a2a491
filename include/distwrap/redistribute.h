// Moving a tensor's parts from one layout to another.
//
// Threads: any; ranks match redistributions of a mesh by the order of the
// calls. Ownership: buffers are borrowed for the call. The source is never
// written; the target is undefined after an error.
//
//   distwrap::redistribute(mesh, TensorView(out), **rows, TensorView(in),
//   **columns,
//                          {1024, 1024});
#ifndef DISTWRAP_REDISTRIBUTE_H_
#define DISTWRAP_REDISTRIBUTE_H_

#include "distwrap/export.h"
#include "distwrap/mesh.h"
#include "distwrap/plan.h"
#include "distwrap/tensor_view.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace distwrap {

struct RedistributeOptions {
  PlanMode mode = PlanMode::kFastest;
  int64_t cap_bytes = int64_t{16} << 20;  // as PlanOptions
  // The time limit of the whole call; unset: that of each group.
  std::optional<absl::Duration> timeout = std::nullopt;
};

namespace mesh {
class Prepared;
}

// A plan, made ready for one rank of a mesh and one element type: what it sends
// to whom is known, and the groups exist.
class DISTWRAP_EXPORT Redistribution {
 public:
  Redistribution() = default;
  // Members of the plan's groups make them here, so every rank of the mesh
  // calls. kMeshMismatch: a plan for another mesh, or a rank outside.
  // kInvalidArgument: elements of another size than the plan's.
  static absl::StatusOr<Redistribution> prepare(const DeviceMesh& mesh,
                                                const PlanRef& plan,
                                                DType dtype);

  // Moves the parts. `in` and `out` are this rank's parts, contiguous, and
  // share no memory. kLayoutMismatch: a part of another size than the layout's.
  absl::Status run(TensorView out, TensorView in,
                   std::optional<absl::Duration> timeout = std::nullopt) const;

  // Needs a redistribution that was prepared.
  const Plan& plan() const;

 private:
  explicit Redistribution(std::shared_ptr<mesh::Prepared> prepared)
      : prepared_(std::move(prepared)) {}
  std::shared_ptr<mesh::Prepared> prepared_;
};

// Plans, prepares and runs; the mesh remembers what it has prepared. All ranks
// of the mesh call with equal arguments, but for their parts.
DISTWRAP_EXPORT absl::Status redistribute(
    const DeviceMesh& mesh, TensorView out, const Layout& to, TensorView in,
    const Layout& from, absl::Span<const int64_t> shape,
    const RedistributeOptions& options = {});

}  // namespace distwrap

#endif  // DISTWRAP_REDISTRIBUTE_H_
