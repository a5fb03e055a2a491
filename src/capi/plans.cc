// Layouts, plans and redistribution, for C.
#include "capi/arguments.h"
#include "capi/entry.h"
#include "distwrap/c.h"
#include "distwrap/redistribute.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

absl::StatusOr<const Layout*> layout_of(const char* call, const char* name,
                                        const MeshShape& mesh,
                                        const char* text) {
  if (text == nullptr) return refuse_null(call, name);
  return Layout::parse(mesh, text);
}

absl::StatusOr<const Layout*> layout_of(const char* call, const char* name,
                                        const distwrap_layout* given) {
  if (given == nullptr) return refuse_null(call, name);
  if (given->sizes == nullptr) return refuse_null(call, "sizes");
  MeshShape mesh;
  mesh.sizes.assign(given->sizes, given->sizes + given->axes);
  return layout_of(call, name, mesh, given->text);
}

absl::StatusOr<absl::Span<const int64_t>> extents_of(const char* call,
                                                     const int64_t* shape,
                                                     int32_t ndim) {
  if (ndim < 0)
    return refuse(call, absl::StrCat(ndim, " dimensions are impossible"),
                  "give the number of extents in shape");
  if (shape == nullptr && ndim != 0) return refuse_null(call, "shape");
  return absl::MakeConstSpan(shape, static_cast<size_t>(ndim));
}

struct Wanted {
  PlanOptions plan;
  std::optional<absl::Duration> timeout;
  std::optional<DType> wire_dtype;
  RedistributeOptions redistribution() const {
    RedistributeOptions options;
    options.mode = plan.mode;
    options.cap_bytes = plan.cap_bytes;
    options.wire_dtype = wire_dtype;
    options.timeout = timeout;
    return options;
  }
};

absl::StatusOr<Wanted> read_wanted(const char* call,
                                   const distwrap_plan_options* options) {
  distwrap_plan_options given;
  if (absl::Status read = read_options(call, options, &given); !read.ok())
    return read;
  if (given.mode < DW_PLAN_FASTEST || given.mode > DW_PLAN_PYTORCH)
    return refuse(call, absl::StrCat("the mode ", given.mode, " is unknown"),
                  "use DW_PLAN_<NAME>");
  Wanted wanted;
  wanted.plan.mode = static_cast<PlanMode>(given.mode);
  if (given.cap_bytes != 0) wanted.plan.cap_bytes = given.cap_bytes;
  wanted.plan.ranks_per_host = given.ranks_per_host;
  if (given.timeout != 0) wanted.timeout = duration_of(given.timeout);
  if (given.wire_dtype.bits != 0) {
    wanted.wire_dtype = known_dtype(given.wire_dtype);
    if (!wanted.wire_dtype.has_value())
      return refuse(call, "wire_dtype is no element type",
                    "use distwrap_dtype(DW_DTYPE_<NAME>)");
  }
  return wanted;
}

// The arguments of a redistribution on one mesh.
struct Move {
  DeviceMesh mesh;
  const Layout* to;
  const Layout* from;
  TensorView out, in;
  absl::Span<const int64_t> shape;
  RedistributeOptions options;
};

absl::StatusOr<Move> read_move(const char* call, distwrap_mesh mesh,
                               const distwrap_tensor* out, const char* to,
                               const distwrap_tensor* in, const char* from,
                               const int64_t* shape, int32_t ndim,
                               const distwrap_plan_options* options) {
  const auto wanted = read_wanted(call, options);
  if (!wanted.ok()) return wanted.status();
  const auto found = held(call, mesh);
  if (!found.ok()) return found.status();
  const auto source = layout_of(call, "from", (**found).shape(), from);
  if (!source.ok()) return source.status();
  const auto target = layout_of(call, "to", (**found).shape(), to);
  if (!target.ok()) return target.status();
  const auto extents = extents_of(call, shape, ndim);
  if (!extents.ok()) return extents.status();
  Arguments arguments(call);
  const TensorView written = arguments.of(Tensor{out, "out"});
  const TensorView read = arguments.of(Tensor{in, "in"});
  if (!arguments.status().ok()) return arguments.status();
  return Move{**found,
              *target,
              *source,
              written,
              read,
              *extents,
              wanted->redistribution()};
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::Plan;
using distwrap::RedistributeOptions;

int32_t distwrap_layout_part(const distwrap_layout* layout,
                             const int64_t* shape, int32_t ndim, int64_t rank,
                             int64_t* local_shape, int64_t* offset,
                             distwrap_error* error) {
  constexpr const char* kCall = "layout_part";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto of = layout_of(kCall, "layout", layout);
    if (!of.ok()) return of.status();
    const auto extents = extents_of(kCall, shape, ndim);
    if (!extents.ok()) return extents.status();
    const auto local = (*of)->local_shape(*extents, rank);
    if (!local.ok()) return local.status();
    const auto first = (*of)->offset(*extents, rank);
    if (!first.ok()) return first.status();
    if (local_shape != nullptr)
      std::copy(local->begin(), local->end(), local_shape);
    if (offset != nullptr) std::copy(first->begin(), first->end(), offset);
    return absl::OkStatus();
  });
}

int32_t distwrap_plan_create(const distwrap_layout* from,
                             const distwrap_layout* to, const int64_t* shape,
                             int32_t ndim, int64_t itemsize,
                             const distwrap_plan_options* options,
                             distwrap_plan* plan, distwrap_error* error) {
  constexpr const char* kCall = "plan_create";
  return entry(kCall, error, [&]() -> absl::Status {
    if (plan == nullptr) return refuse_null(kCall, "plan");
    *plan = nullptr;
    const auto wanted = read_wanted(kCall, options);
    if (!wanted.ok()) return wanted.status();
    const auto source = layout_of(kCall, "from", from);
    if (!source.ok()) return source.status();
    const auto target = layout_of(kCall, "to", to);
    if (!target.ok()) return target.status();
    const auto extents = extents_of(kCall, shape, ndim);
    if (!extents.ok()) return extents.status();
    auto made = distwrap::make_plan(*extents, itemsize, **source, **target,
                                    wanted->plan);
    if (!made.ok()) return made.status();
    return hand_out(kCall, *std::move(made), plan);
  });
}

int32_t distwrap_plan_backward(distwrap_plan plan, distwrap_plan* backward,
                               distwrap_error* error) {
  constexpr const char* kCall = "plan_backward";
  return entry(kCall, error, [&]() -> absl::Status {
    if (backward == nullptr) return refuse_null(kCall, "backward");
    *backward = nullptr;
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    const Plan& of = ***found;
    auto made = distwrap::backward_plan(of.shape(), of.itemsize(), of.source(),
                                        of.target(), of.options());
    if (!made.ok()) return made.status();
    return hand_out(kCall, *std::move(made), backward);
  });
}

int32_t distwrap_plan_free(distwrap_plan plan) { return free_handle(plan); }

int32_t distwrap_plan_read(distwrap_plan plan, distwrap_plan_info* info,
                           distwrap_error* error) {
  constexpr const char* kCall = "plan_read";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    const Plan& of = ***found;
    distwrap_plan_info out = {};
    out.collectives = of.collectives();
    out.received = of.received();
    out.peak = of.peak();
    out.into_host = of.into_host();
    out.floor = of.floor();
    out.price = of.price();
    out.diverged = of.diverged() ? 1 : 0;
    out.steps = static_cast<uint32_t>(of.steps().size());
    return write_info(kCall, out, info);
  });
}

int32_t distwrap_plan_text(distwrap_plan plan, distwrap_list* list,
                           distwrap_error* error) {
  constexpr const char* kCall = "plan_text";
  return entry(kCall, error, [&]() -> absl::Status {
    if (list == nullptr) return refuse_null(kCall, "list");
    *list = nullptr;
    const auto found = held(kCall, plan);
    if (!found.ok()) return found.status();
    return hand_out(kCall, List{(**found)->text()}, list);
  });
}

int32_t distwrap_redistribute(distwrap_mesh mesh, const distwrap_tensor* out,
                              const char* to, const distwrap_tensor* in,
                              const char* from, const int64_t* shape,
                              int32_t ndim,
                              const distwrap_plan_options* options,
                              distwrap_error* error) {
  constexpr const char* kCall = "redistribute";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto move =
        read_move(kCall, mesh, out, to, in, from, shape, ndim, options);
    if (!move.ok()) return move.status();
    return distwrap::redistribute(move->mesh, move->out, *move->to, move->in,
                                  *move->from, move->shape, move->options);
  });
}

int32_t distwrap_redistribute_async(distwrap_mesh mesh,
                                    const distwrap_tensor* out, const char* to,
                                    const distwrap_tensor* in, const char* from,
                                    const int64_t* shape, int32_t ndim,
                                    const distwrap_plan_options* options,
                                    distwrap_work* work,
                                    distwrap_error* error) {
  constexpr const char* kCall = "redistribute_async";
  return entry(kCall, error, [&]() -> absl::Status {
    if (work == nullptr) return refuse_null(kCall, "work");
    *work = nullptr;
    const auto move =
        read_move(kCall, mesh, out, to, in, from, shape, ndim, options);
    if (!move.ok()) return move.status();
    return hand_out_started(kCall, work, [&] {
      return distwrap::redistribute_async(move->mesh, move->out, *move->to,
                                          move->in, *move->from, move->shape,
                                          move->options);
    });
  });
}

int32_t distwrap_redistribute_many(
    distwrap_mesh mesh, const distwrap_tensor* const* outs, const char* to,
    const distwrap_tensor* const* ins, const char* from,
    const int64_t* const* shapes, const int32_t* ndims, uint64_t count,
    const distwrap_plan_options* options, distwrap_error* error) {
  constexpr const char* kCall = "redistribute_many";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto wanted = read_wanted(kCall, options);
    if (!wanted.ok()) return wanted.status();
    const auto found = held(kCall, mesh);
    if (!found.ok()) return found.status();
    const auto source = layout_of(kCall, "from", (**found).shape(), from);
    if (!source.ok()) return source.status();
    const auto target = layout_of(kCall, "to", (**found).shape(), to);
    if (!target.ok()) return target.status();
    if (count != 0 && shapes == nullptr) return refuse_null(kCall, "shapes");
    if (count != 0 && ndims == nullptr) return refuse_null(kCall, "ndims");
    std::vector<std::vector<int64_t>> extents;
    for (uint64_t t = 0; t < count; ++t) {
      const auto one = extents_of(kCall, shapes[t], ndims[t]);
      if (!one.ok()) return one.status();
      extents.emplace_back(one->begin(), one->end());
    }
    Arguments arguments(kCall);
    const Views written = arguments.of(TensorList{outs, count, "outs"});
    const Views read = arguments.of(TensorList{ins, count, "ins"});
    if (!arguments.status().ok()) return arguments.status();
    return distwrap::redistribute_many(**found, written, **target, read,
                                       **source, extents,
                                       wanted->redistribution());
  });
}

int32_t distwrap_redistribute_between(
    distwrap_mesh to_mesh, const distwrap_tensor* out, const char* to,
    distwrap_mesh from_mesh, const distwrap_tensor* in, const char* from,
    const int64_t* shape, int32_t ndim, const distwrap_plan_options* options,
    distwrap_error* error) {
  constexpr const char* kCall = "redistribute_between";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto wanted = read_wanted(kCall, options);
    if (!wanted.ok()) return wanted.status();
    const auto end = held(kCall, to_mesh);
    if (!end.ok()) return end.status();
    const auto begin = held(kCall, from_mesh);
    if (!begin.ok()) return begin.status();
    const auto source = layout_of(kCall, "from", (**begin).shape(), from);
    if (!source.ok()) return source.status();
    const auto target = layout_of(kCall, "to", (**end).shape(), to);
    if (!target.ok()) return target.status();
    const auto extents = extents_of(kCall, shape, ndim);
    if (!extents.ok()) return extents.status();
    Arguments arguments(kCall);
    distwrap::TensorView written, read;
    if ((**end).rank() >= 0) written = arguments.of(Tensor{out, "out"});
    if ((**begin).rank() >= 0) read = arguments.of(Tensor{in, "in"});
    if (!arguments.status().ok()) return arguments.status();
    return distwrap::redistribute_between(**end, written, **target, **begin,
                                          read, **source, *extents,
                                          wanted->redistribution());
  });
}
