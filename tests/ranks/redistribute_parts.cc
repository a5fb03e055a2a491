#include "ranks/redistribute_parts.h"

#include "host_backends.h"

#include <random>

namespace distwrap {

using layout::Parts;

Parts given_parts(const Layout& layout, absl::Span<const int64_t> shape) {
  Parts parts;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    int64_t seed = 1;
    for (size_t a = 0; a < layout.placements().size(); ++a)
      if (layout.placements()[a].kind == Placement::Kind::kPartial)
        seed = seed * 7 + layout.coordinate(rank)[a];
    std::mt19937 random(static_cast<uint32_t>(seed));
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<double> whole(static_cast<size_t>(count));
    for (double& one : whole) one = static_cast<double>(random() % 5);
    parts.push_back(
        layout::cut(whole, layout, shape)[static_cast<size_t>(rank)]);
  }
  return parts;
}

void without_rank_1(
    const std::string& backend,
    const std::function<void(const DeviceMesh&, const Layout& rows,
                             const Layout& columns)>& body) {
  testing::run_ranks(2, {.backend = backend}, [&](Session& session) {
    bind_session(session);
    const MeshShape shape{{2}};
    const auto mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& columns = **Layout::parse(shape, "S(1)");
    const std::vector<float> in(8, 1);
    std::vector<float> out(8);
    ASSERT_TRUE(redistribute(*mesh, TensorView(out), columns, TensorView(in),
                             rows, {4, 4})
                    .ok());
    if (session.rank() == 0) body(*mesh, rows, columns);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Redistribute,
    ::testing::ValuesIn(testing::host_backends<std::string>()),
    testing::name_of_backend);

}  // namespace distwrap
