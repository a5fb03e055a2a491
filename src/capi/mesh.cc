// Meshes of ranks, for C.
#include "distwrap/mesh.h"

#include "capi/entry.h"
#include "distwrap/c.h"

#include <utility>

namespace distwrap::capi {
namespace {

absl::StatusOr<MeshShape> shape_of(const char* call,
                                   const distwrap_mesh_options& given) {
  if (given.sizes == nullptr) return refuse_null(call, "sizes");
  MeshShape shape;
  shape.sizes.assign(given.sizes, given.sizes + given.axes);
  for (uint32_t i = 0; given.names != nullptr && i < given.axes; ++i) {
    if (given.names[i] == nullptr) return refuse_null(call, "a name");
    shape.names.emplace_back(given.names[i]);
  }
  return shape;
}

// Runs `f(mesh, axes)`.
template <class F>
absl::Status with_axes(const char* call, distwrap_mesh mesh,
                       const int32_t* axes, uint64_t count, const F& f) {
  if (axes == nullptr && count != 0) return refuse_null(call, "axes");
  const auto found = held(call, mesh);
  if (!found.ok()) return found.status();
  return f(**found, absl::MakeConstSpan(axes, count));
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::DeviceMesh;

int32_t distwrap_mesh_create(const distwrap_mesh_options* options,
                             distwrap_mesh* mesh, distwrap_error* error) {
  constexpr const char* kCall = "mesh_create";
  return entry(kCall, error, [&]() -> absl::Status {
    if (mesh == nullptr) return refuse_null(kCall, "mesh");
    *mesh = nullptr;
    distwrap_mesh_options given;
    if (absl::Status read = read_options(kCall, options, &given); !read.ok())
      return read;
    if (given.ranks == nullptr && given.ranks_count != 0)
      return refuse_null(kCall, "ranks");
    const auto shape = shape_of(kCall, given);
    if (!shape.ok()) return shape.status();
    auto made = DeviceMesh::create(
        *shape, absl::MakeConstSpan(given.ranks, given.ranks_count));
    if (!made.ok()) return made.status();
    return hand_out(kCall, *std::move(made), mesh);
  });
}

int32_t distwrap_mesh_free(distwrap_mesh mesh) { return free_handle(mesh); }

int32_t distwrap_mesh_read(distwrap_mesh mesh, distwrap_mesh_info* info,
                           distwrap_error* error) {
  constexpr const char* kCall = "mesh_read";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, mesh);
    if (!found.ok()) return found.status();
    const DeviceMesh& of = **found;
    distwrap_mesh_info out = {};
    out.axes = static_cast<uint32_t>(of.shape().sizes.size());
    out.sizes = of.shape().sizes.data();
    out.size = of.size();
    out.ranks = of.ranks().data();
    out.rank = of.rank();
    return write_info(kCall, out, info);
  });
}

int32_t distwrap_mesh_along(distwrap_mesh mesh, const int32_t* axes,
                            uint64_t count, distwrap_mesh* part,
                            distwrap_error* error) {
  constexpr const char* kCall = "mesh_along";
  return entry(kCall, error, [&]() -> absl::Status {
    if (part == nullptr) return refuse_null(kCall, "part");
    *part = nullptr;
    return with_axes(kCall, mesh, axes, count,
                     [&](const DeviceMesh& of,
                         absl::Span<const int32_t> along) -> absl::Status {
                       auto made = of.along(along);
                       if (!made.ok()) return made.status();
                       return hand_out(kCall, *std::move(made), part);
                     });
  });
}

int32_t distwrap_mesh_group(distwrap_mesh mesh, const int32_t* axes,
                            uint64_t count, distwrap_group* group,
                            distwrap_error* error) {
  constexpr const char* kCall = "mesh_group";
  return entry(kCall, error, [&]() -> absl::Status {
    if (group == nullptr) return refuse_null(kCall, "group");
    *group = nullptr;
    return with_axes(kCall, mesh, axes, count,
                     [&](const DeviceMesh& of,
                         absl::Span<const int32_t> along) -> absl::Status {
                       return hand_out_started(
                           kCall, group, [&] { return of.group_along(along); });
                     });
  });
}
