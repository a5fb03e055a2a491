// A matrix that is cut by rows becomes one that is cut by columns:
// docs/layouts.md.
#include <distwrap/distwrap.h>
#include <distwrap/redistribute.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

absl::Status run() {
  if (auto session = dw::init_process_group(); !session.ok())
    return session.status();
  const dw::MeshShape shape{.sizes = {dw::get_world_size()}, .names = {"x"}};
  const auto mesh = dw::DeviceMesh::create(shape);
  if (!mesh.ok()) return mesh.status();
  const auto rows = dw::Layout::parse(shape, "S(0)");
  const auto columns = dw::Layout::parse(shape, "S(1)");
  if (!rows.ok()) return rows.status();
  if (!columns.ok()) return columns.status();

  // A matrix of 4 rows and 6 columns; element (i, j) is 10 * i + j.
  const int64_t matrix[] = {4, 6};
  const auto mine = (*rows)->indices(matrix, mesh->rank(), 0);
  const auto local = (*columns)->local_shape(matrix, mesh->rank());
  if (!mine.ok()) return mine.status();
  if (!local.ok()) return local.status();
  std::vector<float> in, out(static_cast<size_t>((*local)[0] * (*local)[1]));
  for (const int64_t i : *mine)
    for (int64_t j = 0; j < 6; ++j)
      in.push_back(static_cast<float>(10 * i + j));
  absl::Status status = dw::redistribute(*mesh, dw::TensorView(out), **columns,
                                         dw::TensorView(in), **rows, matrix);
  if (!status.ok()) return status;
  for (const float x : out) std::cout << x << " ";
  std::cout << "\n";
  return dw::destroy_process_group();
}

int main() {
  const absl::Status status = run();
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
