// The cost of planning, and of a redistribution in distwrap itself: over a
// backend that agrees to every group and operation and moves nothing. One rank
// measures; the others only make their part of the groups.
//
//   redistribution_bench --benchmark_repetitions=10
#include "base/settings.h"
#include "distwrap/distwrap.h"
#include "distwrap/redistribute.h"
#include "group/session_plan.h"
#include "group/session_state.h"
#include "plugin/registry.h"
#include "sdk/read_op.h"

#include <benchmark/benchmark.h>

#include <latch>
#include <map>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern "C" const dw_backend_api* dw_plugin_query_v1_loopback(
    const dw_host_info*);

namespace distwrap {
namespace {

// ---- a backend that moves nothing: the loopback for groups of any size ----

const dw_backend_api& loopback() {
  static const dw_host_info host = {sizeof host, DW_ABI_MAJOR, DW_ABI_MINOR, 0,
                                    0,           {"bench", 5}};
  static const dw_backend_api* const table = dw_plugin_query_v1_loopback(&host);
  return *table;
}

int32_t begin_setup(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info alone = *info;
  alone.rank = 0;
  alone.size = 1;
  return loopback().setup_begin(backend, &alone, setup, out, error);
}

int32_t step_setup(dw_setup* setup, const dw_blob* in, uint64_t /*n*/,
                   dw_blob* out, dw_setup_result* result, dw_error* error) {
  return loopback().setup_step(setup, in, 1, out, result, error);
}

int32_t agree(dw_comm*, const dw_op*, dw_error*) { return DW_OK; }

int32_t do_nothing(dw_comm*, const dw_op* given, dw_work*, dw_error*) {
  dw_op space;
  const dw_op* op;
  const int32_t code = dw_read_op(&space, &op, given);
  benchmark::DoNotOptimize(op);
  return code == DW_OK ? DW_DONE : code;
}

const dw_backend_api* still(const dw_host_info*) {
  static const dw_backend_api table = [] {
    dw_backend_api api = loopback();
    api.name = {"still", 5};
    api.setup_begin = begin_setup;
    api.setup_step = step_setup;
    api.query = agree;
    api.submit = do_nothing;
    return api;
  }();
  return &table;
}

absl::Span<const plugin::LinkedIn> with_still() {
  static const plugin::LinkedIn all[] = {{"still", still}};
  return all;
}

template <class Result>
auto require(Result result) {
  if (!result.ok()) {
    fprintf(stderr, "%s\n", result.status().ToString().c_str());
    exit(1);
  }
  return *std::move(result);
}

// Runs `body(mesh, measures)` in every rank of a mesh; rank 0 measures, and the
// others wait for it afterwards.
template <class Body>
void with_mesh(const std::vector<int64_t>& sizes, const Body& body) {
  int n = 1;
  for (int64_t size : sizes) n *= static_cast<int>(size);
  const std::shared_ptr<Store> store = Store::in_memory();
  std::latch done(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      group::SessionPlan plan = require(group::plan_session(
          {.backend = "still", .rank = rank, .world_size = n, .store = store},
          base::Environment(std::map<std::string, std::string>{})));
      plan.linked_in = with_still();
      Session session(require(group::SessionState::create(plan)));
      bind_session(session);
      const DeviceMesh mesh = require(DeviceMesh::create({.sizes = sizes}));
      body(mesh, rank == 0);
      done.arrive_and_wait();
      if (!session.close().ok()) exit(1);
      bind_session({});
    });
  for (std::thread& thread : threads) thread.join();
}

// ---- plans ----

// Plans between two layouts of a mesh whose axes have two ranks each. `fresh`:
// each has a shape that the cache has not seen.
void plan(benchmark::State& state, const std::vector<int64_t>& sizes,
          const char* from, const char* to, bool fresh) {
  const MeshShape mesh = {.sizes = sizes};
  const Layout& source = *require(Layout::parse(mesh, from));
  const Layout& target = *require(Layout::parse(mesh, to));
  std::vector<int64_t> shape = {1024, 1024};
  for (auto _ : state) {
    benchmark::DoNotOptimize(make_plan(shape, 4, source, target));
    if (fresh) shape[0] += 32;
  }
}

BENCHMARK_CAPTURE(plan, hit, {2}, "S(0)", "S(1)", false);
BENCHMARK_CAPTURE(plan, cold_1_axis, {8}, "S(0)", "S(1)", true);
BENCHMARK_CAPTURE(plan, cold_2_axes, {2, 4}, "P,S(0)", "S(0),S(1)", true);
BENCHMARK_CAPTURE(plan, cold_3_axes, {2, 2, 2}, "P,S(0),R", "S(0),S(1),S(1)",
                  true);
BENCHMARK_CAPTURE(plan, cold_5_axes, {2, 2, 2, 2, 2}, "P,S(0),R,S(1),R",
                  "S(0),S(1),S(1),R,R", true);

// ---- whole calls ----

void call(benchmark::State& state, const std::vector<int64_t>& sizes,
          const char* from, const char* to) {
  with_mesh(sizes, [&](const DeviceMesh& mesh, bool measures) {
    const Layout& source = *require(Layout::parse(mesh.shape(), from));
    const Layout& target = *require(Layout::parse(mesh.shape(), to));
    const std::vector<int64_t> shape = {8, 8};
    const auto elements = [&](const Layout& layout) {
      size_t n = 1;
      for (int64_t extent : require(layout.local_shape(shape, mesh.rank())))
        n *= static_cast<size_t>(extent);
      return n;
    };
    const std::vector<float> in(elements(source));
    std::vector<float> out(elements(target));
    const auto move = [&] {
      if (!redistribute(mesh, TensorView(out), target, TensorView(in), source,
                        shape)
               .ok())
        exit(1);
    };
    move();  // all ranks make the groups
    if (!measures) return;
    for (auto _ : state) move();
  });
}

BENCHMARK_CAPTURE(call, one_axis, {2}, "S(0)", "R");
BENCHMARK_CAPTURE(call, two_axes, {2, 2}, "P,S(0)", "S(0),R");
BENCHMARK_CAPTURE(call, nothing_to_do, {2}, "S(0)", "S(0)");

}  // namespace
}  // namespace distwrap

BENCHMARK_MAIN();
