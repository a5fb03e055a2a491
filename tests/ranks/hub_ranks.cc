#include "ranks/hub_ranks.h"

#include "base/settings.h"
#include "distwrap/distwrap.h"
#include "fakes/messages.h"
#include "fakes/only.h"
#include "fakes/second_device.h"
#include "fakes/streams.h"
#include "group/session_state.h"
#include "perfect.h"
#include "sdk/fail.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
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
// The memory of "gaps", which stands for memory of a device: an address in any
// other memory is refused, as NCCL refuses it.
struct DeviceRanges {
  std::mutex mutex;
  std::map<const char*, size_t> ranges;
  bool holds(const dw_buf& buf) {
    if (buf.data == nullptr || buf.count == 0) return true;
    std::lock_guard<std::mutex> lock(mutex);
    const auto* const at = static_cast<const char*>(buf.data);
    auto next = ranges.upper_bound(at);
    return next != ranges.begin() &&
           at < std::prev(next)->first + std::prev(next)->second;
  }
};
DeviceRanges& device_ranges() {
  static auto* const all = new DeviceRanges;
  return *all;
}

constexpr fakes::Only kGaps = {
    "gaps",
    DW_BIT(DW_OP_BARRIER) | DW_BIT(DW_OP_BROADCAST) | DW_BIT(DW_OP_REDUCE) |
        DW_BIT(DW_OP_ALL_GATHER),
    DW_BIT(DW_DTYPE_U8) | DW_BIT(DW_DTYPE_F32),
    DW_BIT(DW_REDUCE_SUM) | DW_BIT(DW_REDUCE_MAX),
    DW_FLAG_CALLER_WAITS | DW_FLAG_IN_PLACE | DW_FLAG_PER_RANK};

const dw_backend_api& gaps_inner() {
  return fakes::only<conformance::perfect_table, kGaps>();
}
int32_t submit_to_device(dw_comm* comm, const dw_op* op, dw_work* work,
                         dw_error* error) {
  if (!device_ranges().holds(op->in) || !device_ranges().holds(op->out))
    return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                   0, "gaps: the address is not memory of a device");
  return gaps_inner().submit(comm, op, work, error);
}
const dw_backend_api* gaps_query(const dw_host_info*) {
  static const dw_backend_api table = [] {
    dw_backend_api api = fakes::on_cuda<gaps_inner>();
    api.name = {"gaps", 4};
    api.submit = submit_to_device;
    return api;
  }();
  return &table;
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
    made.push_back({"gaps", gaps_query});
    made.push_back({"streams", streams_query});
    made.push_back({"messages", dw_plugin_query_v1_messages});
    return made;
  }();
  return all;
}

}  // namespace

DeviceRange::DeviceRange(const void* data, size_t bytes)
    : data_(static_cast<const char*>(data)) {
  std::lock_guard<std::mutex> lock(device_ranges().mutex);
  device_ranges().ranges[data_] = bytes;
}
DeviceRange::~DeviceRange() {
  std::lock_guard<std::mutex> lock(device_ranges().mutex);
  device_ranges().ranges.erase(data_);
}

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
