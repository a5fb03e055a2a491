#include "distwrap/redistribute.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "distwrap/deadline.h"
#include "mesh/prepared.h"

#include <absl/container/inlined_vector.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdlib>
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

absl::Status check_layout(const DeviceMesh& mesh, const MeshShape& wanted) {
  if (!mesh)
    return refuse(Reason::kMeshMismatch, "there is no mesh", "", "",
                  "make one by DeviceMesh::create");
  if (mesh.shape() == wanted) return absl::OkStatus();
  return refuse(Reason::kMeshMismatch, "the layouts are not on this mesh",
                absl::StrCat("[", absl::StrJoin(mesh.shape().sizes, ","), "]"),
                absl::StrCat("[", absl::StrJoin(wanted.sizes, ","), "]"),
                "make the layouts with the mesh's own shape and names");
}

absl::Status check_mesh(const DeviceMesh& mesh, const MeshShape& wanted) {
  if (absl::Status status = check_layout(mesh, wanted); !status.ok())
    return status;
  if (mesh.rank() < 0)
    return refuse(Reason::kMeshMismatch, "this rank is not in the mesh", "", "",
                  "make the call on the mesh's ranks alone");
  return absl::OkStatus();
}

// Whether elements of a strided view may lie on one another: some stride does
// not step over all elements of the dimensions with smaller ones.
bool may_repeat(const TensorView& part) {
  if (part.contiguous()) return false;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, extent
  for (int d = 0; d < part.dims(); ++d)
    if (part.extent(d) > 1)
      dims.emplace_back(std::abs(part.strides()[static_cast<size_t>(d)]),
                        part.extent(d));
  std::sort(dims.begin(), dims.end());
  int64_t last = 0;  // the distance to the last element so far
  for (const auto& [stride, extent] : dims) {
    if (stride <= last) return true;
    last += (extent - 1) * stride;
  }
  return false;
}

absl::Status check_part(const TensorView& part, const char* name, int64_t count,
                        DType dtype, bool is_written) {
  const auto bad = [&](Reason reason, std::string what, std::string next_step) {
    return refuse(reason, absl::StrCat(name, " ", what),
                  absl::StrCat(dtype_name(dtype), " x ", count), part.text(),
                  std::move(next_step));
  };
  if (part.device() != kCpu)
    return bad(Reason::kInvalidArgument, "is not in the host's memory",
               "give a view of host memory");
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
  if (is_written && may_repeat(part))
    return bad(Reason::kInvalidArgument,
               "may have several elements at one address",
               "give memory with a place for each element");
  return absl::OkStatus();
}

// The addresses from the first byte of a view to behind its last one.
std::pair<uintptr_t, uintptr_t> range_of(const TensorView& view) {
  auto begin = reinterpret_cast<uintptr_t>(view.data()), end = begin;
  const auto size = static_cast<uintptr_t>(dtype_size(view.dtype()));
  if (view.contiguous())
    return {begin, begin + static_cast<uintptr_t>(view.count()) * size};
  for (int d = 0; d < view.dims(); ++d) {
    const int64_t stride = view.strides()[static_cast<size_t>(d)];
    const uintptr_t bytes =
        static_cast<uintptr_t>((view.extent(d) - 1) * std::abs(stride)) * size;
    (stride < 0 ? begin : end) += stride < 0 ? -bytes : bytes;
  }
  return {begin, end + size};
}

// Whether a target shares memory with a source or with another target.
bool overlap(absl::Span<const TensorView> outs,
             absl::Span<const TensorView> ins) {
  struct Range {
    uintptr_t begin, end;
    bool is_out;
  };
  absl::InlinedVector<Range, 8> ranges;
  const auto add = [&](absl::Span<const TensorView> views, bool is_out) {
    for (const TensorView& one : views) {
      if (one.count() == 0) continue;
      const auto [begin, end] = range_of(one);
      ranges.push_back({begin, end, is_out});
    }
  };
  add(outs, true);
  add(ins, false);
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  uintptr_t end_of_outs = 0, end_of_ins = 0;  // among the ranges before
  for (const Range& one : ranges) {
    if (one.begin < end_of_outs || (one.is_out && one.begin < end_of_ins))
      return true;
    uintptr_t& end = one.is_out ? end_of_outs : end_of_ins;
    end = std::max(end, one.end);
  }
  return false;
}

absl::Status overlapping() {
  return refuse(Reason::kInvalidArgument, "source and target overlap", "", "",
                "give two buffers");
}

absl::Status check_parts(const mesh::Prepared& prepared,
                         absl::Span<const TensorView> outs,
                         absl::Span<const TensorView> ins) {
  const size_t tensors = prepared.in_counts().size();
  if (ins.size() != tensors || outs.size() != tensors)
    return refuse(
        Reason::kInvalidArgument, "another number of tensors was prepared",
        absl::StrCat(tensors),
        absl::StrCat(ins.size(), " sources and ", outs.size(), " targets"),
        "give one part for each tensor");
  for (size_t t = 0; t < tensors; ++t) {
    absl::Status status = check_part(
        ins[t], "the source", prepared.in_counts()[t], prepared.dtype(), false);
    if (status.ok())
      status = check_part(outs[t], "the target", prepared.out_counts()[t],
                          prepared.dtype(), true);
    if (!status.ok()) return status;
  }
  return overlap(outs, ins) ? overlapping() : absl::OkStatus();
}

absl::Status check_plan(const DeviceMesh& mesh, const PlanRef& plan,
                        DType travels_as) {
  if (plan == nullptr)
    return refuse(Reason::kInvalidArgument, "there is no plan", "", "",
                  "make one by make_plan");
  if (absl::Status status = check_mesh(mesh, plan->source().mesh());
      !status.ok())
    return status;
  if (dtype_size(travels_as) == plan->itemsize()) return absl::OkStatus();
  return refuse(Reason::kInvalidArgument,
                "the plan is for elements of another size",
                absl::StrCat(plan->itemsize(), " bytes"),
                std::string(dtype_name(travels_as)),
                "plan with the size of the elements");
}

// Whether tensors may share their collectives. Levels, which sizes decide, may
// differ: those of the first tensor's plan serve all.
bool have_equal_steps(const Plan& a, const Plan& b) {
  return &a.source() == &b.source() && &a.target() == &b.target() &&
         std::equal(a.steps().begin(), a.steps().end(), b.steps().begin(),
                    b.steps().end(), [](const PlanStep& x, const PlanStep& y) {
                      return x.kind == y.kind && x.axes == y.axes &&
                             x.op == y.op && x.divisor == y.divisor &&
                             x.to == y.to;
                    });
}

using LocalTensors = absl::InlinedVector<mesh::LocalTensor, 2>;

LocalTensors tensors_of(absl::Span<const TensorView> views) {
  LocalTensors tensors;
  for (const TensorView& one : views) tensors.emplace_back(one);
  return tensors;
}

// Local tensors whose shapes and strides live as long as they do.
class KeptTensors {
 public:
  explicit KeptTensors(absl::Span<const TensorView> views)
      : tensors_(tensors_of(views)) {
    size_t count = 0;
    for (const mesh::LocalTensor& one : tensors_)
      count += one.shape.size() + one.strides.size();
    numbers_.reserve(count);
    for (mesh::LocalTensor& one : tensors_)
      for (absl::Span<const int64_t>* span : {&one.shape, &one.strides}) {
        const int64_t* const begin = numbers_.data() + numbers_.size();
        numbers_.insert(numbers_.end(), span->begin(), span->end());
        *span = absl::MakeConstSpan(begin, span->size());
      }
  }
  KeptTensors(const KeptTensors&) = delete;
  KeptTensors& operator=(const KeptTensors&) = delete;
  const LocalTensors& get() const { return tensors_; }

 private:
  LocalTensors tensors_;
  std::vector<int64_t> numbers_;
};

absl::Status nothing_prepared() {
  return refuse(Reason::kInvalidArgument, "nothing is prepared", "", "",
                "make it by Redistribution::prepare");
}

PlanOptions plan_options(const DeviceMesh& mesh,
                         const RedistributeOptions& options) {
  return {.mode = options.mode,
          .cap_bytes = options.cap_bytes,
          .ranks_per_host = mesh.state()->ranks_per_host(),
          .prices = mesh.state()->prices()};
}

// The redistribution that the mesh remembers, or has prepared now.
absl::StatusOr<Redistribution> prepared_on(const DeviceMesh& mesh,
                                           const Layout& to, DType dtype,
                                           const Layout& from,
                                           absl::Span<const int64_t> shape,
                                           const RedistributeOptions& options) {
  for (const Layout* layout : {&from, &to})
    if (absl::Status status = check_mesh(mesh, layout->mesh()); !status.ok())
      return status;
  const mesh::MoveKey key = {.from = &from,
                             .to = &to,
                             .to_mesh = 0,
                             .dtype = dtype,
                             .mode = options.mode,
                             .cap_bytes = options.cap_bytes,
                             .wire_dtype = options.wire_dtype,
                             .tensors = 0,
                             .shape = {shape.begin(), shape.end()}};
  return mesh.state()->prepared(key, [&]() -> absl::StatusOr<Redistribution> {
    const absl::StatusOr<PlanRef> plan =
        make_plan(shape, dtype_size(options.wire_dtype.value_or(dtype)), from,
                  to, plan_options(mesh, options));
    if (!plan.ok()) return plan.status();
    return Redistribution::prepare(mesh, *plan, dtype, options.wire_dtype);
  });
}

}  // namespace

absl::StatusOr<Redistribution> Redistribution::prepare(
    const DeviceMesh& mesh, const PlanRef& plan, DType dtype,
    std::optional<DType> wire_dtype) {
  return prepare_many(mesh, {&plan, 1}, dtype, wire_dtype);
}

absl::StatusOr<Redistribution> Redistribution::prepare_many(
    const DeviceMesh& mesh, absl::Span<const PlanRef> plans, DType dtype,
    std::optional<DType> wire_dtype) try {
  if (plans.empty())
    return refuse(Reason::kInvalidArgument, "there is no plan", "", "",
                  "make one by make_plan");
  for (const PlanRef& plan : plans) {
    if (absl::Status status =
            check_plan(mesh, plan, wire_dtype.value_or(dtype));
        !status.ok())
      return status;
    if (!have_equal_steps(*plan, *plans.front()))
      return refuse(Reason::kInvalidArgument, "the plans' steps differ",
                    plans.front()->text(), plan->text(),
                    "give the tensors to redistribute_many, which puts those "
                    "with equal steps together");
  }
  auto prepared = mesh::Prepared::make(mesh, plans, dtype, wire_dtype);
  if (!prepared.ok()) return prepared.status();
  return Redistribution(*std::move(prepared));
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::StatusOr<Redistribution> Redistribution::prepare_between(
    const DeviceMesh& to_mesh, const Layout& to, const DeviceMesh& from_mesh,
    const Layout& from, absl::Span<const int64_t> shape, DType dtype,
    const RedistributeOptions& options) try {
  absl::Status status = check_layout(to_mesh, to.mesh());
  if (status.ok()) status = check_layout(from_mesh, from.mesh());
  if (!status.ok()) return status;
  if (to_mesh.rank() < 0 && from_mesh.rank() < 0)
    return refuse(Reason::kMeshMismatch, "this rank is in neither mesh", "", "",
                  "make the call on the ranks of the two meshes alone");
  auto prepared = mesh::Prepared::make_between(
      to_mesh, to, from_mesh, from, {shape.begin(), shape.end()}, dtype,
      options.wire_dtype,
      {.mode = options.mode, .cap_bytes = options.cap_bytes});
  if (!prepared.ok()) return prepared.status();
  return Redistribution(*std::move(prepared));
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::Status Redistribution::check(absl::Span<const TensorView> outs,
                                   absl::Span<const TensorView> ins) const {
  return check_parts(*prepared_, outs, ins);
}

absl::Status Redistribution::run_many(
    absl::Span<const TensorView> outs, absl::Span<const TensorView> ins,
    std::optional<absl::Duration> timeout) const try {
  if (prepared_ == nullptr) return nothing_prepared();
  if (prepared_->in_order().busy()) {
    const absl::StatusOr<Work> work = start(outs, ins, timeout);
    return work.ok() ? work->wait() : work.status();
  }
  if (absl::Status status = check_parts(*prepared_, outs, ins); !status.ok())
    return status;
  return prepared_->run(tensors_of(outs), tensors_of(ins), timeout);
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::StatusOr<Work> Redistribution::start(
    absl::Span<const TensorView> outs, absl::Span<const TensorView> ins,
    std::optional<absl::Duration> timeout) const try {
  if (prepared_ == nullptr) return nothing_prepared();
  if (absl::Status status = check_parts(*prepared_, outs, ins); !status.ok())
    return status;
  // The time limit counts from here, also for one that waits for its turn.
  std::optional<Deadline> deadline;
  if (timeout.has_value()) deadline = Deadline::after(*timeout);
  return prepared_->in_order().start(
      [prepared = prepared_, to = std::make_shared<KeptTensors>(outs),
       from = std::make_shared<KeptTensors>(ins), deadline] {
        std::optional<absl::Duration> left;
        if (deadline.has_value())
          left = std::max(deadline->remaining(), absl::Nanoseconds(1));
        return prepared->run(to->get(), from->get(), left);
      },
      {outs.begin(), outs.end()});
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::Status redistribute(const DeviceMesh& mesh, TensorView out,
                          const Layout& to, TensorView in, const Layout& from,
                          absl::Span<const int64_t> shape,
                          const RedistributeOptions& options) try {
  const absl::StatusOr<Redistribution> prepared =
      prepared_on(mesh, to, in.dtype(), from, shape, options);
  if (!prepared.ok()) return prepared.status();
  return prepared->run(out, in, options.timeout);
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::StatusOr<Work> redistribute_async(
    const DeviceMesh& mesh, TensorView out, const Layout& to, TensorView in,
    const Layout& from, absl::Span<const int64_t> shape,
    const RedistributeOptions& options) try {
  const absl::StatusOr<Redistribution> prepared =
      prepared_on(mesh, to, in.dtype(), from, shape, options);
  if (!prepared.ok()) return prepared.status();
  return prepared->start({&out, 1}, {&in, 1}, options.timeout);
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::Status redistribute_many(const DeviceMesh& mesh,
                               absl::Span<const TensorView> outs,
                               const Layout& to,
                               absl::Span<const TensorView> ins,
                               const Layout& from,
                               absl::Span<const std::vector<int64_t>> shapes,
                               const RedistributeOptions& options) try {
  for (const Layout* layout : {&from, &to})
    if (absl::Status status = check_mesh(mesh, layout->mesh()); !status.ok())
      return status;
  if (outs.size() != shapes.size() || ins.size() != shapes.size())
    return refuse(
        Reason::kInvalidArgument, "the lists have different lengths",
        absl::StrCat(shapes.size(), " shapes"),
        absl::StrCat(ins.size(), " sources and ", outs.size(), " targets"),
        "give a source, a target and a shape for each tensor");
  if (shapes.empty()) return absl::OkStatus();
  const DType dtype = ins.front().dtype();
  // Tensors with equal steps, in the order of the first of each.
  struct Together {
    std::vector<PlanRef> plans;
    std::vector<TensorView> outs, ins;
    Redistribution prepared;
    bool is_ready = false;
  };
  std::vector<Together> all;
  for (size_t t = 0; t < shapes.size(); ++t) {
    const absl::StatusOr<PlanRef> plan =
        make_plan(shapes[t], dtype_size(options.wire_dtype.value_or(dtype)),
                  from, to, plan_options(mesh, options));
    if (!plan.ok()) return plan.status();
    // The backend may move the blocks of a large tensor where they lie.
    // Together with others they would be packed. This is decided without a look
    // at the blocks, which may be regular on some ranks of the mesh alone.
    if ((*plan)->peak() * (*plan)->itemsize() >= mesh::kLeastBlockBytes) {
      absl::StatusOr<Redistribution> alone =
          prepared_on(mesh, to, dtype, from, shapes[t], options);
      if (!alone.ok()) return alone.status();
      if (alone->prepared_->backend_moves_blocks()) {
        all.push_back({{*plan}, {outs[t]}, {ins[t]}, *std::move(alone), true});
        continue;
      }
    }
    auto found = std::find_if(all.begin(), all.end(), [&](const Together& one) {
      return !one.is_ready && have_equal_steps(*one.plans.front(), **plan);
    });
    if (found == all.end()) found = all.insert(all.end(), Together());
    found->plans.push_back(*plan);
    found->outs.push_back(outs[t]);
    found->ins.push_back(ins[t]);
  }
  // A mistake in any of them is refused before the first is sent.
  const auto prepare = [&](Together& one) -> absl::Status {
    mesh::MoveKey key = {.from = &from,
                         .to = &to,
                         .to_mesh = 0,
                         .dtype = dtype,
                         .mode = options.mode,
                         .cap_bytes = options.cap_bytes,
                         .wire_dtype = options.wire_dtype,
                         .tensors = one.plans.size(),
                         .shape = {}};
    for (const PlanRef& plan : one.plans) {
      key.shape.push_back(static_cast<int64_t>(plan->shape().size()));
      key.shape.insert(key.shape.end(), plan->shape().begin(),
                       plan->shape().end());
    }
    absl::StatusOr<Redistribution> prepared = mesh.state()->prepared(key, [&] {
      return Redistribution::prepare_many(mesh, one.plans, dtype,
                                          options.wire_dtype);
    });
    if (!prepared.ok()) return prepared.status();
    one.prepared = *std::move(prepared);
    return absl::OkStatus();
  };
  for (Together& one : all) {
    absl::Status status;
    if (!one.is_ready) status = prepare(one);
    if (status.ok()) status = one.prepared.check(one.outs, one.ins);
    if (!status.ok()) return status;
  }
  if (overlap(outs, ins)) return overlapping();
  std::optional<absl::Duration> timeout = options.timeout;
  const Deadline deadline =
      timeout.has_value() ? Deadline::after(*timeout) : Deadline::never();
  for (const Together& one : all) {
    if (absl::Status status = one.prepared.run_many(one.outs, one.ins, timeout);
        !status.ok())
      return status;
    if (timeout.has_value())
      timeout = std::max(deadline.remaining(), absl::Nanoseconds(1));
  }
  return absl::OkStatus();
} catch (...) {
  return base::error_of_exception(kCall);
}

absl::Status redistribute_between(const DeviceMesh& to_mesh, TensorView out,
                                  const Layout& to, const DeviceMesh& from_mesh,
                                  TensorView in, const Layout& from,
                                  absl::Span<const int64_t> shape,
                                  const RedistributeOptions& options) try {
  absl::Status status = check_layout(to_mesh, to.mesh());
  if (status.ok()) status = check_layout(from_mesh, from.mesh());
  if (!status.ok()) return status;
  // A rank without a source has the type of its target.
  const DType dtype = from_mesh.rank() < 0 ? out.dtype() : in.dtype();
  const mesh::MoveKey key = {.from = &from,
                             .to = &to,
                             .to_mesh = to_mesh.state()->id(),
                             .dtype = dtype,
                             .mode = options.mode,
                             .cap_bytes = options.cap_bytes,
                             .wire_dtype = options.wire_dtype,
                             .tensors = 0,
                             .shape = {shape.begin(), shape.end()}};
  const absl::StatusOr<Redistribution> prepared =
      from_mesh.state()->prepared(key, [&] {
        return Redistribution::prepare_between(to_mesh, to, from_mesh, from,
                                               shape, dtype, options);
      });
  if (!prepared.ok()) return prepared.status();
  // Where a rank has no part, its view says nothing.
  const TensorView none(nullptr, 0, dtype);
  return prepared->run(to_mesh.rank() < 0 ? none : out,
                       from_mesh.rank() < 0 ? none : in, options.timeout);
} catch (...) {
  return base::error_of_exception(kCall);
}

}  // namespace distwrap
