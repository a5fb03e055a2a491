#include "distwrap/redistribute.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "mesh/prepared.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>

namespace distwrap {
namespace {

constexpr char kCall[] = "redistribute";

absl::Status refuse(Reason reason, std::string what, std::string expected,
                    std::string actual, std::string next_step) {
  return base::make_error({.reason = reason,
                           .what = std::move(what),
                           .op = kCall,
                           .expected = std::move(expected),
                           .actual = std::move(actual),
                           .next_step = std::move(next_step)});
}

absl::Status check_mesh(const DeviceMesh& mesh, const MeshShape& wanted) {
  if (!mesh)
    return refuse(Reason::kMeshMismatch, "there is no mesh", "", "",
                  "make one by DeviceMesh::create");
  if (mesh.shape() != wanted)
    return refuse(
        Reason::kMeshMismatch, "the layouts are not on this mesh",
        absl::StrCat("[", absl::StrJoin(mesh.shape().sizes, ","), "]"),
        absl::StrCat("[", absl::StrJoin(wanted.sizes, ","), "]"),
        "make the layouts with the mesh's own shape and names");
  if (mesh.rank() < 0)
    return refuse(Reason::kMeshMismatch, "this rank is not in the mesh", "", "",
                  "make the call on the mesh's ranks alone");
  return absl::OkStatus();
}

absl::Status check_part(const TensorView& part, const char* name, int64_t count,
                        DType dtype, bool is_written) {
  const auto bad = [&](Reason reason, std::string what, std::string next_step) {
    return refuse(reason, absl::StrCat(name, " ", what),
                  absl::StrCat(dtype_name(dtype), " x ", count), part.text(),
                  std::move(next_step));
  };
  if (!part.contiguous() || part.device() != kCpu)
    return bad(Reason::kInvalidArgument,
               "is strided, or not in the host's memory",
               "give a contiguous view of host memory");
  if (part.dtype() != dtype)
    return bad(Reason::kInvalidArgument, "has another element type",
               "give both parts the type that was prepared");
  if (part.count() != count)
    return bad(Reason::kLayoutMismatch,
               "has another size than this rank's part",
               "Layout::local_shape tells the shape of the part");
  if (is_written && part.read_only())
    return bad(Reason::kInvalidArgument, "is read-only",
               "give memory that may be written");
  if (count != 0 && part.data() == nullptr)
    return bad(Reason::kInvalidArgument, "is NULL", "give its memory");
  return absl::OkStatus();
}

bool overlap(const TensorView& a, const TensorView& b, size_t size) {
  const auto begin = [](const TensorView& v) {
    return reinterpret_cast<uintptr_t>(v.data());
  };
  const auto end = [&](const TensorView& v) {
    return begin(v) + static_cast<size_t>(v.count()) * size;
  };
  return a.count() != 0 && b.count() != 0 && begin(a) < end(b) &&
         begin(b) < end(a);
}

}  // namespace

absl::StatusOr<Redistribution> Redistribution::prepare(const DeviceMesh& mesh,
                                                       const PlanRef& plan,
                                                       DType dtype) try {
  if (plan == nullptr)
    return refuse(Reason::kInvalidArgument, "there is no plan", "", "",
                  "make one by make_plan");
  if (absl::Status status = check_mesh(mesh, plan->source().mesh());
      !status.ok())
    return status;
  if (dtype_size(dtype) != plan->itemsize())
    return refuse(
        Reason::kInvalidArgument, "the plan is for elements of another size",
        absl::StrCat(plan->itemsize(), " bytes"),
        std::string(dtype_name(dtype)), "plan with the size of the elements");
  auto prepared = mesh::Prepared::make(mesh, plan, dtype);
  if (!prepared.ok()) return prepared.status();
  return Redistribution(*std::move(prepared));
} catch (...) {
  return base::error_of_exception(kCall);
}

const Plan& Redistribution::plan() const { return prepared_->plan(); }

absl::Status Redistribution::run(TensorView out, TensorView in,
                                 std::optional<absl::Duration> timeout) const
    try {
  if (prepared_ == nullptr)
    return refuse(Reason::kInvalidArgument, "nothing is prepared", "", "",
                  "make it by Redistribution::prepare");
  const DType dtype = prepared_->dtype();
  absl::Status status =
      check_part(in, "the source", prepared_->in_count(), dtype, false);
  if (status.ok())
    status = check_part(out, "the target", prepared_->out_count(), dtype, true);
  if (!status.ok()) return status;
  if (overlap(out, in, static_cast<size_t>(dtype_size(dtype))))
    return refuse(Reason::kInvalidArgument, "source and target overlap", "", "",
                  "give two buffers");
  return prepared_->run(static_cast<std::byte*>(out.data()),
                        static_cast<const std::byte*>(in.data()), timeout);
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::Status redistribute(const DeviceMesh& mesh, TensorView out,
                          const Layout& to, TensorView in, const Layout& from,
                          absl::Span<const int64_t> shape,
                          const RedistributeOptions& options) try {
  for (const Layout* layout : {&from, &to})
    if (absl::Status status = check_mesh(mesh, layout->mesh()); !status.ok())
      return status;
  const mesh::MoveKey key = {.from = &from,
                             .to = &to,
                             .dtype = in.dtype(),
                             .mode = options.mode,
                             .cap_bytes = options.cap_bytes,
                             .shape = {shape.begin(), shape.end()}};
  const absl::StatusOr<Redistribution> prepared =
      mesh.state()->prepared(key, [&]() -> absl::StatusOr<Redistribution> {
        const absl::StatusOr<PlanRef> plan =
            make_plan(shape, dtype_size(in.dtype()), from, to,
                      {.mode = options.mode, .cap_bytes = options.cap_bytes});
        if (!plan.ok()) return plan.status();
        return Redistribution::prepare(mesh, *plan, in.dtype());
      });
  if (!prepared.ok()) return prepared.status();
  return prepared->run(out, in, options.timeout);
} catch (...) {
  return base::error_of_exception(kCall);
}

}  // namespace distwrap
