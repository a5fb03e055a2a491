// Laws that hold between plans: of one another, of the order of axes, and of
// all processes.
#include "distwrap/plan.h"
#include "distwrap/status.h"
#include "unit/layout/placement_texts.h"
#include "unit/layout/simulated_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::layout {
namespace {

std::vector<const Layout*> layouts(const MeshShape& mesh,
                                   const std::vector<std::string>& texts) {
  std::vector<const Layout*> all;
  for (const std::string& text : sequences(texts, mesh.sizes.size()))
    all.push_back(*Layout::parse(mesh, text));
  return all;
}

const std::vector<std::string> kWhole = {"R", "S(0)", "S(1)"};

// A plan gives what gathering everything and slicing gives, by way of any third
// layout, and back.
TEST(PlanLaws, EveryWayDeliversTheSame) {
  std::mt19937 random(11);
  for (const MeshShape& mesh : {MeshShape{{3}}, MeshShape{{2, 3}}})
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{5, 4}, {2, 7}}) {
      const std::vector<const Layout*> all = layouts(mesh, kWhole);
      std::vector<double> whole(static_cast<size_t>(shape[0] * shape[1]));
      for (double& one : whole) one = static_cast<double>(random() % 1000);
      for (const Layout* const a : all)
        for (const Layout* const c : all) {
          const Layout& b = *all[random() % all.size()];
          const auto go = [&](const Layout& from, const Layout& to,
                              const Parts& parts) {
            return run(**make_plan(shape, 4, from, to), parts);
          };
          const Parts given = cut(whole, *a, shape);
          const Parts made = go(*a, *c, given);
          ASSERT_EQ(made, cut(whole, *c, shape)) << a->text() << c->text();
          ASSERT_EQ(go(b, *c, go(*a, b, given)), made) << b.text();
          ASSERT_EQ(go(*c, *a, made), given);
        }
    }
}

// No way around is cheaper.
TEST(PlanLaws, NoDetourIsCheaper) {
  const std::vector<int64_t> shape = {1024, 768};
  for (const MeshShape& mesh :
       {MeshShape{{4}}, MeshShape{{2, 2}}, MeshShape{{2, 4}}}) {
    const std::vector<const Layout*> all =
        layouts(mesh, {"R", "S(0)", "S(1)", "P(sum)"});
    const size_t n = all.size();
    std::vector<int64_t> price(n * n);
    for (size_t i = 0; i < n * n; ++i)
      price[i] = (*make_plan(shape, 4, *all[i / n], *all[i % n]))->price();
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        for (size_t c = 0; c < n; ++c)
          ASSERT_LE(price[a * n + c], price[a * n + b] + price[b * n + c])
              << all[a]->text() << " by " << all[b]->text() << " to "
              << all[c]->text();
  }
}

// A mesh with its axes in another order has plans of the same cost. PyTorch's
// steps, which are among the candidates, go by the order of the axes, and win
// for some targets that are partial.
TEST(PlanLaws, NamesOfAxesDoNotMatter) {
  const MeshShape mesh{{2, 3}}, turned{{3, 2}};
  const auto other = [&](const Layout& layout) {
    const std::vector<Placement>& both = layout.placements();
    ShardOrder order;
    if (both[0].kind == Placement::Kind::kShard && both[0] == both[1])
      order[both[0].dim] = {1, 0};
    return *Layout::make(turned, {both[1], both[0]}, order);
  };
  for (const Layout* const a : layouts(mesh, {"R", "S(0)", "S(1)", "P(sum)"}))
    for (const Layout* const b : layouts(mesh, kWhole)) {
      const PlanRef one = *make_plan({12, 18}, 4, *a, *b);
      const PlanRef two = *make_plan({12, 18}, 4, *other(*a), *other(*b));
      EXPECT_EQ(one->received(), two->received()) << one->text() << two->text();
      EXPECT_EQ(one->collectives(), two->collectives());
      EXPECT_EQ(one->price(), two->price()) << one->text() << two->text();
    }
}

// The texts of many plans, in an order by the seed.
std::string texts(uint32_t seed) {
  const MeshShape mesh{{2, 4}};
  std::vector<std::pair<const Layout*, const Layout*>> pairs;
  const auto all = layouts(mesh, {"R", "S(0)", "S(1)", "P(sum)"});
  for (const Layout* const a : all)
    for (const Layout* const b : all) pairs.emplace_back(a, b);
  std::vector<size_t> order(pairs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::vector<std::string> made(pairs.size());
  for (const size_t i : order)
    for (const int64_t hosts : {0, 4})
      made[i] += (*make_plan({100, 37}, 4, *pairs[i].first, *pairs[i].second,
                             {.ranks_per_host = hosts}))
                     ->text();
  std::string joined;
  for (const std::string& one : made) joined += one;
  return joined;
}

// A plan does not depend on what a process or a thread has planned before.
TEST(PlanLaws, AllProcessesChooseTheSame) {
  const std::string expected = texts(0);
  EXPECT_EQ(texts(1), expected);
  std::string of_thread;
  std::thread([&] { of_thread = texts(2); }).join();
  EXPECT_EQ(of_thread, expected);
  for (uint32_t seed = 3; seed < 23; ++seed) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(texts(seed) == expected ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << seed;
  }
}

}  // namespace
}  // namespace distwrap::layout
