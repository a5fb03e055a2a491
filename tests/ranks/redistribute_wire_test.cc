// Values that travel in another form than the caller's: strided parts, narrower
// floats, averages of integers and norms.
#include "distwrap/distwrap.h"
#include "distwrap/redistribute.h"
#include "host_backends.h"
#include "mesh/mesh_state.h"
#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace distwrap {
namespace {

const MeshShape kThree{{3}};

const Layout& layout(const char* text) { return **Layout::parse(kThree, text); }

// Runs `body` on three ranks, with their mesh.
void on_three(const std::string& backend,
              const std::function<void(const DeviceMesh&)>& body) {
  testing::run_ranks(3, {.backend = backend}, [&](Session& session) {
    bind_session(session);
    const auto mesh = DeviceMesh::create(kThree);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    body(*mesh);
  });
}

class RedistributeWire : public ::testing::TestWithParam<std::string> {};

// The rows of a matrix become columns; both lie in larger arrays, the source
// column by column, the target with every second element unused.
template <class T>
void move_strided(const DeviceMesh& mesh) {
  const std::vector<int64_t> shape = {7, 5};
  const Layout &rows = layout("S(0)"), &columns = layout("S(1)");
  const int64_t me = mesh.rank();
  const auto mine = *rows.indices(shape, me, 0);
  const auto taken = *columns.indices(shape, me, 1);
  const auto height = static_cast<int64_t>(mine.size());
  const auto width = static_cast<int64_t>(taken.size());
  std::vector<T> in(static_cast<size_t>(height * 5)),
      out(static_cast<size_t>(7 * width * 2), T(9));
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < 5; ++j)
      in[static_cast<size_t>(j * height + i)] =
          static_cast<T>(10 * mine[static_cast<size_t>(i)] + j);
  const std::vector<T> before = in;
  const std::vector<int64_t> in_shape = {height, 5}, in_strides = {1, height},
                             out_shape = {7, width},
                             out_strides = {2 * width, 2};
  for (const bool waits : {true, false}) {
    std::fill(out.begin(), out.end(), T(9));
    absl::Status status;
    if (waits) {
      status = redistribute(
          mesh, TensorView(out.data(), out_shape, out_strides), columns,
          TensorView(std::as_const(in).data(), in_shape, in_strides), rows,
          shape);
    } else {
      // The shapes need not outlive the call, unlike the memory.
      auto shapes = std::make_unique<std::vector<std::vector<int64_t>>>(
          std::vector{out_shape, out_strides, in_shape, in_strides});
      const auto work = redistribute_async(
          mesh, TensorView(out.data(), (*shapes)[0], (*shapes)[1]), columns,
          TensorView(std::as_const(in).data(), (*shapes)[2], (*shapes)[3]),
          rows, shape);
      for (std::vector<int64_t>& one : *shapes) one.assign(one.size(), 77);
      shapes.reset();
      ASSERT_TRUE(work.ok()) << work.status();
      status = work->wait();
    }
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(in, before);
    for (int64_t i = 0; i < 7; ++i)
      for (int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<size_t>(2 * (i * width + j));
        ASSERT_EQ(out[at],
                  static_cast<T>(10 * i + taken[static_cast<size_t>(j)]));
        ASSERT_EQ(out[at + 1], T(9)) << "between the elements";
      }
  }
}

TEST_P(RedistributeWire, StridedParts) {
  on_three(GetParam(), [](const DeviceMesh& mesh) {
    move_strided<int8_t>(mesh);
    move_strided<int16_t>(mesh);
    move_strided<float>(mesh);
    move_strided<double>(mesh);
  });
}

// Averages of values near the ends of the type: their sum would wrap.
template <class T>
void average(const DeviceMesh& mesh) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> whole = {Limits::max(),
                                Limits::min(),
                                static_cast<T>(Limits::max() - 1),
                                static_cast<T>(Limits::min() + 1),
                                T(0),
                                T(1),
                                static_cast<T>(-1),
                                static_cast<T>(Limits::max() / 2)};
  const Layout &parts = layout("P(avg)"), &all = layout("R"),
               &cut = layout("S(0)");
  std::vector<T> partial(whole.size()), back(whole.size());
  ASSERT_TRUE(redistribute(mesh, TensorView(partial), parts, TensorView(whole),
                           all, {8})
                  .ok());
  ASSERT_TRUE(
      redistribute(mesh, TensorView(back), all, TensorView(partial), parts, {8})
          .ok());
  EXPECT_EQ(back, whole);
  const auto mine = *cut.indices({8}, mesh.rank(), 0);
  std::vector<T> some(mine.size());
  ASSERT_TRUE(
      redistribute(mesh, TensorView(some), cut, TensorView(partial), parts, {8})
          .ok());
  for (size_t i = 0; i < mine.size(); ++i)
    EXPECT_EQ(some[i], whole[static_cast<size_t>(mine[i])]);
  // Other values on each rank: the quotient is cut off toward zero.
  for (int negative = 0; negative < (std::is_signed_v<T> ? 2 : 1); ++negative)
    for (const int last : {0, 1, 2}) {
      const int sign = negative == 0 ? 1 : -1;
      const std::vector<T> own = {static_cast<T>(
          sign *
          (mesh.rank() == 2 ? last : 3 * static_cast<int>(mesh.rank())))};
      std::vector<T> one(1);
      ASSERT_TRUE(
          redistribute(mesh, TensorView(one), all, TensorView(own), parts, {1})
              .ok());
      EXPECT_EQ(one[0], static_cast<T>(sign * ((3 + last) / 3)));
    }
}

TEST_P(RedistributeWire, AveragesOfIntegersDoNotWrap) {
  on_three(GetParam(), [](const DeviceMesh& mesh) {
    average<int8_t>(mesh);
    average<uint8_t>(mesh);
    average<int16_t>(mesh);
    average<uint16_t>(mesh);
    average<int32_t>(mesh);
    average<uint32_t>(mesh);
    average<int64_t>(mesh);
    average<uint64_t>(mesh);
  });
}

template <class T>
void norm(const DeviceMesh& mesh, double p) {
  const std::string text = absl::StrCat("P(norm", p, ")");
  const auto parts = Layout::parse(kThree, text);
  ASSERT_TRUE(parts.ok()) << parts.status();
  // A square of the last is beyond f32.
  const std::vector<double> whole = {3, 0, 0.5, 1e25};
  std::vector<T> own, out(4);
  double weights = 0;
  for (int r = 1; r <= 3; ++r) weights += std::pow(r, p);
  for (const double one : whole)
    own.push_back(static_cast<T>(one * static_cast<double>(mesh.rank() + 1) /
                                 std::pow(weights, 1 / p)));
  for (const char* const to : {"R", "S(0)"}) {
    const auto count = (*layout(to).local_shape({4}, mesh.rank()))[0];
    const auto first = (*layout(to).offset({4}, mesh.rank()))[0];
    const absl::Status status =
        redistribute(mesh, TensorView(out.data(), count), layout(to),
                     TensorView(own), **parts, {4});
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < count; ++i) {
      const double expected = whole[static_cast<size_t>(first + i)];
      EXPECT_NEAR(static_cast<double>(out[static_cast<size_t>(i)]), expected,
                  1e-6 * expected)
          << text;
    }
  }
}

TEST_P(RedistributeWire, Norms) {
  on_three(GetParam(), [](const DeviceMesh& mesh) {
    norm<float>(mesh, 2);
    norm<double>(mesh, 2);
    norm<float>(mesh, 1.5);
    norm<double>(mesh, 1);
  });
}

// All values are rounded once, also those that a rank keeps, so that replicas
// are equal.
TEST_P(RedistributeWire, NarrowerFloats) {
  on_three(GetParam(), [](const DeviceMesh& mesh) {
    std::vector<float> whole = {
        1, 1.0F + 0x1p-7F, 1.0F + 0x1p-20F, 3.14159274F, -65504, 1e-3F, 0};
    const std::vector<float> rounded = {1,      1.0F + 0x1p-7F, 1, 3.140625F,
                                        -65536, 0x1.06p-10F,    0};
    const auto mine = *layout("S(0)").indices({7}, mesh.rank(), 0);
    std::vector<float> in, out(7), kept(7);
    for (const int64_t i : mine) in.push_back(whole[static_cast<size_t>(i)]);
    const RedistributeOptions narrow = {.wire_dtype = DType::kBF16};
    ASSERT_TRUE(redistribute(mesh, TensorView(out), layout("R"), TensorView(in),
                             layout("S(0)"), {7}, narrow)
                    .ok());
    EXPECT_EQ(out, rounded);
    // Nothing is sent, so nothing is rounded.
    std::vector<float> part(mine.size());
    ASSERT_TRUE(redistribute(mesh, TensorView(part), layout("S(0)"),
                             TensorView(whole), layout("R"), {7}, narrow)
                    .ok());
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_EQ(part[i], whole[static_cast<size_t>(mine[i])]);
    // Between meshes, where the first and the last rank change places.
    const auto reversed = DeviceMesh::create(kThree, {2, 1, 0});
    ASSERT_TRUE(reversed.ok()) << reversed.status();
    const auto count = (*layout("S(0)").local_shape({7}, reversed->rank()))[0];
    const auto first = (*layout("S(0)").offset({7}, reversed->rank()))[0];
    ASSERT_TRUE(redistribute_between(*reversed, TensorView(kept.data(), count),
                                     layout("S(0)"), mesh, TensorView(in),
                                     layout("S(0)"), {7}, narrow)
                    .ok());
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(kept[static_cast<size_t>(i)],
                rounded[static_cast<size_t>(first + i)]);
    // Several at once, as sums in the narrower type.
    std::vector<double> ones(3, 1.0), sums(3), twos(2, 0.1), more(2);
    const std::vector<std::vector<int64_t>> shapes = {{3}, {2}};
    ASSERT_TRUE(
        redistribute_many(mesh, {TensorView(sums), TensorView(more)},
                          layout("R"), {TensorView(ones), TensorView(twos)},
                          layout("P"), shapes, {.wire_dtype = DType::kF32})
            .ok());
    EXPECT_EQ(sums, std::vector<double>(3, 3.0));
    EXPECT_EQ(more, std::vector<double>(2, (0.1F + 0.1F) + 0.1F));
  });
}

TEST_P(RedistributeWire, AreRefusedWhereTheyLose) {
  on_three(GetParam(), [](const DeviceMesh& mesh) {
    const auto refused = [](const absl::Status& status) {
      return error_reason(status) == Reason::kInvalidArgument;
    };
    std::vector<int32_t> in(3), out(3);
    EXPECT_TRUE(refused(redistribute(mesh, TensorView(out), layout("R"),
                                     TensorView(in), layout("P(norm2)"), {3})));
    EXPECT_TRUE(
        refused(redistribute(mesh, TensorView(out), layout("R"), TensorView(in),
                             layout("P"), {3}, {.wire_dtype = DType::kF32})));
    std::vector<float> from(3), to(9);
    EXPECT_TRUE(refused(redistribute(mesh, TensorView(to.data(), 3),
                                     layout("R"), TensorView(from), layout("P"),
                                     {3}, {.wire_dtype = DType::kI8})));
    // Targets in which elements share a place.
    for (const std::vector<int64_t>& strides :
         {std::vector<int64_t>{0, 1}, {1, 1}, {2, 3}, {2, 2}}) {
      const std::vector<int64_t> shape = {3, 3};
      std::vector<float> values(9);
      EXPECT_TRUE(refused(
          redistribute(mesh, TensorView(to.data(), shape, strides), layout("R"),
                       TensorView(values), layout("P"), shape)))
          << strides[0] << ", " << strides[1];
    }
    // The source lies inside the target's memory.
    std::vector<float> both(20);
    const std::vector<int64_t> shape = {3, 3}, strides = {6, 2};
    EXPECT_TRUE(refused(
        redistribute(mesh, TensorView(both.data(), shape, strides), layout("R"),
                     TensorView(both.data() + 5, 9), layout("P"), shape)));
    EXPECT_FALSE(Layout::parse(kThree, "P(norm0)").ok());
    EXPECT_FALSE(Layout::parse(kThree, "P(norm-1)").ok());
    EXPECT_FALSE(Layout::parse(kThree, "P(norminf)").ok());
    EXPECT_FALSE(Layout::parse(kThree, "P(norm)").ok());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, RedistributeWire,
    ::testing::ValuesIn(testing::host_backends<std::string>()),
    testing::name_of_backend);

// Plans know which ranks share a host.
TEST(RedistributeHosts, AMeshKnowsItsHosts) {
  testing::run_ranks(
      4, {.backend = "gloo", .ranks_per_node = 2}, [&](Session& session) {
        bind_session(session);
        const auto hosts = [](const MeshShape& shape, std::vector<int> ranks) {
          return DeviceMesh::create(shape, ranks)->state()->ranks_per_host();
        };
        EXPECT_EQ(hosts({{2, 2}}, {0, 1, 2, 3}), 2);
        EXPECT_EQ(hosts({{4}}, {2, 3, 1, 0}), 2);
        EXPECT_EQ(hosts({{4}}, {0, 2, 1, 3}), 0) << "a host twice";
        EXPECT_EQ(hosts({{2}}, {0, 2}), 1);
        EXPECT_EQ(hosts({{2}}, {0, 1}), 0) << "one host";
        EXPECT_EQ(hosts({{3}}, {0, 1, 2}), 0) << "uneven";
      });
}

}  // namespace
}  // namespace distwrap
