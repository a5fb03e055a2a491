// Prices of collectives, measured on request and equal on all ranks.
#include "distwrap/distwrap.h"
#include "distwrap/mesh.h"
#include "distwrap/redistribute.h"
#include "group/group_state.h"
#include "host_backends.h"
#include "mesh/mesh_state.h"
#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace distwrap {
namespace {

constexpr absl::Duration kLimit = absl::Milliseconds(30);

std::array<int64_t, 4> figures(const PlanPrices& prices) {
  return {prices.begin, prices.near, prices.far, prices.copy};
}

class MeshPrices : public ::testing::TestWithParam<std::string> {};

TEST_P(MeshPrices, AreMeasuredOnceInAJobAndEqualOnAllRanks) {
  testing::run_ranks(4, {.backend = GetParam()}, [&](Session& session) {
    bind_session(session);
    const auto mesh = DeviceMesh::create({{2, 2}});
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const auto prices = mesh->measure_prices(kLimit);
    ASSERT_TRUE(prices.ok()) << prices.status();
    for (const int64_t one : figures(*prices)) EXPECT_GT(one, 0);
    // All ranks share a host.
    EXPECT_EQ(prices->far, PlanPrices().far);
    std::vector<int64_t> all(16);
    std::array<int64_t, 4> mine = figures(*prices);
    ASSERT_TRUE(
        all_gather_into_tensor(TensorView(all), TensorView(mine.data(), 4))
            .ok());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], mine[i % 4]);
    EXPECT_EQ(mesh->state()->prices(), *prices);
    // Meshes of some of the ranks get the same figures.
    const auto pair = DeviceMesh::create({{2}});
    ASSERT_TRUE(pair.ok());
    EXPECT_EQ(pair->state()->prices(), PlanPrices());
    const auto again = pair->measure_prices(kLimit);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *prices);
    // Redistributions go on.
    const Layout& rows = **Layout::parse({{2}}, "S(0)");
    const std::vector<float> in(8, 1);
    std::vector<float> out(8);
    EXPECT_TRUE(redistribute(*pair, TensorView(out),
                             **Layout::parse({{2}}, "S(1)"), TensorView(in),
                             rows, {4, 4})
                    .ok());
  });
}

TEST(MeshPricesOfHosts, HaveTheNetworksOwn) {
  const InitOptions hosts = {.backend = "gloo", .ranks_per_node = 2};
  testing::run_ranks(4, hosts, [](Session& session) {
    bind_session(session);
    const auto mesh = DeviceMesh::create({{4}});
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const auto prices = mesh->measure_prices(kLimit);
    ASSERT_TRUE(prices.ok()) << prices.status();
    const PlanPrices table;
    // A measured price may happen to be that of the table; two do not.
    EXPECT_TRUE(prices->far != table.far || prices->near != table.near);
  });
}

TEST(MeshPricesArguments, AreRefused) {
  testing::run_ranks(2, {.backend = "shm"}, [](Session& session) {
    bind_session(session);
    const auto reason = [](const absl::StatusOr<PlanPrices>& prices) {
      return error_reason(prices.status());
    };
    const auto one = DeviceMesh::create({{1}});
    EXPECT_EQ(reason(one->measure_prices()), Reason::kMeshShape);
    EXPECT_EQ(reason(DeviceMesh().measure_prices()), Reason::kMeshMismatch);
    const auto mesh = DeviceMesh::create({{2}});
    EXPECT_EQ(reason(mesh->measure_prices(absl::ZeroDuration())),
              Reason::kInvalidArgument);
    // Something else lies under the key, and all ranks are told.
    if (session.rank() == 0) {
      const auto world = session.world().state();
      ASSERT_TRUE(world->store()
                      ->set(world->key("plan_prices"), "1,2",
                            Deadline::after(absl::Seconds(10)))
                      .ok());
    }
    ASSERT_TRUE(barrier().ok());
    EXPECT_EQ(reason(mesh->measure_prices(kLimit)),
              session.rank() == 0 ? Reason::kInvalidArgument
                                  : Reason::kStoreUnreachable);
    EXPECT_EQ(mesh->state()->prices(), PlanPrices());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, MeshPrices,
    ::testing::ValuesIn(testing::host_backends<std::string>()),
    testing::name_of_backend);

}  // namespace
}  // namespace distwrap
