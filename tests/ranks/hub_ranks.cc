#include "ranks/hub_ranks.h"

#include "base/settings.h"
#include "distwrap/distwrap.h"
#include "fakes/messages.h"
#include "fakes/second_device.h"
#include "fakes/streams.h"
#include "group/session_state.h"
#include "perfect.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::testing {
namespace {

const dw_backend_api* perfect_query(const dw_host_info*) {
  return &conformance::perfect_table();
}
const dw_backend_api* faux_query(const dw_host_info*) {
  return &fakes::on_cuda<conformance::perfect_table>();
}
const dw_backend_api* streams_query(const dw_host_info*) {
  return &fakes::with_streams<conformance::perfect_table>();
}

absl::Span<const plugin::LinkedIn> with_hub() {
  static const std::vector<plugin::LinkedIn> all = [] {
    std::vector<plugin::LinkedIn> made(plugin::linked_in().begin(),
                                       plugin::linked_in().end());
    made.push_back({"perfect", perfect_query});
    made.push_back({"faux", faux_query});
    made.push_back({"streams", streams_query});
    made.push_back({"messages", dw_plugin_query_v1_messages});
    return made;
  }();
  return all;
}

}  // namespace

absl::StatusOr<Session> hub_session(int rank, int n, const InitOptions& options,
                                    std::shared_ptr<Store> store,
                                    std::optional<absl::Duration> close_limit) {
  InitOptions mine = options;
  mine.rank = rank;
  mine.world_size = n;
  mine.store = std::move(store);
  // Each test program chooses whether the ranks have a board.
  std::map<std::string, std::string> settings;
  if (const char* const check = std::getenv("DISTWRAP_CHECK"); check != nullptr)
    settings["DISTWRAP_CHECK"] = check;
  absl::StatusOr<group::SessionPlan> plan =
      group::plan_session(mine, base::Environment(settings));
  if (!plan.ok()) return plan.status();
  plan->linked_in = with_hub();
  if (close_limit.has_value())
    plan->close_limit = *close_limit;
  else if (options.backend.find("gloo") == std::string::npos)
    plan->close_limit = absl::Milliseconds(2);
  auto state = group::SessionState::create(*plan);
  if (!state.ok()) return state.status();
  return Session(*state);
}

void run_hub_ranks(int n, const InitOptions& options,
                   const std::function<void(Session&)>& body,
                   std::shared_ptr<Store> store,
                   std::optional<absl::Duration> close_limit,
                   const std::function<void(int, InitOptions*)>& change) {
  if (store == nullptr) store = Store::in_memory();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([=, &options, &body, &change] {
      InitOptions mine = options;
      if (change != nullptr) change(rank, &mine);
      absl::StatusOr<Session> session =
          hub_session(rank, n, mine, store, close_limit);
      ASSERT_TRUE(session.ok()) << "rank " << rank << ": " << session.status();
      bind_session(*session);
      body(*session);
      EXPECT_TRUE(session->close().ok());
      bind_session({});
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace distwrap::testing
