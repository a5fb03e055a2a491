// The pencils of a 3-D grid: every rank holds whole lines along x, then along
// y, then along z, as the passes of an FFT need them: docs/redistribution.md.
#include <distwrap/distwrap.h>
#include <distwrap/redistribute.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

// The grid has 4 x 6 x 2 points on 2 x 2 ranks; point (x, y, z) is 100 x + 10 y
// + z.
absl::Status run() {
  if (auto session = dw::init_process_group(); !session.ok())
    return session.status();
  const dw::MeshShape shape{.sizes = {2, 2}, .names = {"rows", "columns"}};
  const auto mesh = dw::DeviceMesh::create(shape);
  if (!mesh.ok()) return mesh.status();
  const std::vector<int64_t> grid = {4, 6, 2};
  // Cut along the two other dimensions, a line is whole on its rank.
  const dw::Layout* layouts[3];
  for (const auto& [axis, text] :
       {std::pair(0, "S(1),S(2)"), {1, "S(0),S(2)"}, {2, "S(0),S(1)"}}) {
    const auto layout = dw::Layout::parse(shape, text);
    if (!layout.ok()) return layout.status();
    layouts[axis] = *layout;
  }

  std::vector<float> pencils;
  const auto indices = [&](int dim) {
    return *layouts[0]->indices(grid, mesh->rank(), dim);
  };
  for (const int64_t x : indices(0))
    for (const int64_t y : indices(1))
      for (const int64_t z : indices(2))
        pencils.push_back(static_cast<float>(100 * x + 10 * y + z));
  for (const int axis : {1, 2}) {
    // Each of the two moves is an exchange along one axis of the mesh.
    std::vector<float> turned(pencils.size());
    const absl::Status status =
        dw::redistribute(*mesh, dw::TensorView(turned), *layouts[axis],
                         dw::TensorView(pencils), *layouts[axis - 1], grid);
    if (!status.ok()) return status;
    pencils = turned;
    std::cout << (axis == 1 ? "along y:" : "along z:");
    // The points of the first line, which lie apart along y.
    const auto part = layouts[axis]->local_shape(grid, mesh->rank());
    if (!part.ok()) return part.status();
    const int64_t apart = axis == 1 ? (*part)[2] : 1;
    for (int64_t i = 0; i < grid[static_cast<size_t>(axis)]; ++i)
      std::cout << " " << pencils[static_cast<size_t>(i * apart)];
    std::cout << std::endl;
  }
  return dw::destroy_process_group();
}

int main() {
  const absl::Status status = run();
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
