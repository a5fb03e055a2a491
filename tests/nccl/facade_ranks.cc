#include "facade_ranks.h"

#include "base/settings.h"
#include "group/session_state.h"
#include "plugin/linked_in.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

extern "C" const dw_backend_api* dw_plugin_query_v1_nccl(const dw_host_info*);

namespace distwrap::nccl_test {

absl::StatusOr<Session> open_session(int rank, int n,
                                     std::shared_ptr<Store> store,
                                     HintMap hints, const Settings& settings) {
  static const std::vector<plugin::LinkedIn> kLinked = [] {
    std::vector<plugin::LinkedIn> made(plugin::linked_in().begin(),
                                       plugin::linked_in().end());
    made.push_back({"nccl", dw_plugin_query_v1_nccl});
    return made;
  }();
  InitOptions options;
  options.backend = "cpu:shm,cuda:nccl";
  options.rank = rank;
  options.world_size = n;
  options.store = std::move(store);
  options.device_id = rank;
  options.timeout = absl::Seconds(60);
  options.init_timeout = absl::Seconds(60);
  hints.emplace("nccl_library", fake_nccl(23203));
  hints.emplace("cuda_driver", fake_driver());
  options.hints.insert(hints.begin(), hints.end());
  absl::StatusOr<group::SessionPlan> plan =
      group::plan_session(options, base::Environment(settings));
  if (!plan.ok()) return plan.status();
  plan->linked_in = kLinked;
  auto state = group::SessionState::create(*plan);
  if (!state.ok()) return state.status();
  return Session(*state);
}

void run(int n, const std::function<void(Session&)>& body, const HintMap& hints,
         const Settings& settings) {
  fakes::gpu::allow_host_memory(false);
  const std::shared_ptr<Store> store = Store::in_memory();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      absl::StatusOr<Session> session =
          open_session(rank, n, store, hints, settings);
      ASSERT_TRUE(session.ok()) << session.status();
      bind_session(*session);
      body(*session);
      EXPECT_TRUE(session->close().ok());
      bind_session({});
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace distwrap::nccl_test
