#include "group/group_build.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "base/guard_door.h"
#include "comm/board/board.h"
#include "comm/setup.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace distwrap::group {
namespace {

// Opens every backend before anything is built.
absl::StatusOr<std::vector<std::shared_ptr<comm::BackendInstance>>> open_all(
    const GroupPlan& plan, Instances& instances) {
  if (!plan.backends.empty()) return plan.backends;
  const auto tables = instances.tables(plan.parts.choices);
  if (!tables.ok()) return tables.status();
  if (absl::Status status = comm::check_hints(*tables, plan.parts.hints);
      !status.ok())
    return status;
  std::vector<std::shared_ptr<comm::BackendInstance>> opened;
  for (const BackendChoice& choice : plan.parts.choices) {
    absl::StatusOr<std::shared_ptr<comm::BackendInstance>> backend =
        instances.open(choice.backend, device_of(choice, plan.device_id),
                       plan.parts.hints);
    if (!backend.ok()) return backend.status();
    opened.push_back(*std::move(backend));
  }
  return opened;
}

comm::SetupPlan setup_of(const GroupPlan& plan, size_t index,
                         comm::Hints hints) {
  const GroupParts& parts = plan.parts;
  return {.group = parts.name,
          .uid = parts.uid + index,
          .epoch = 0,
          .rank = parts.rank,
          .size = static_cast<int>(parts.global_ranks.size()),
          .host_of = parts.host_of,
          .hints = std::move(hints),
          .keys = absl::StrCat(parts.key_prefix, index, "/"),
          .terms = absl::StrCat("backend ", terms_of(plan.parts.choices)),
          .parent_ranks = plan.parent_ranks,
          .all_of_parent = plan.all_of_parent};
}

comm::RecordedAs record_as(const GroupPlan& plan, const comm::SetupPlan& setup,
                           absl::string_view backend) {
  const GroupParts& parts = plan.parts;
  if (parts.recording == nullptr) return {};
  comm::RecordedGroup group;
  group.name = comm::recorded_text(parts.name);
  group.backend = comm::recorded_text(backend);
  group.uid = setup.uid;
  group.rank = setup.rank;
  group.size = setup.size;
  const size_t known = std::min(parts.global_ranks.size(), group.ranks.size());
  std::copy_n(parts.global_ranks.begin(), known, group.ranks.begin());
  return {parts.recording, parts.recording->recorder().add_group(group)};
}

// The group's part of the news between hosts; null when all members are here.
std::shared_ptr<comm::GroupNews> news_of(const GroupParts& parts,
                                         const comm::SetupPlan& setup) {
  const std::vector<int32_t>& hosts = parts.host_of;
  if (std::equal(hosts.begin() + 1, hosts.end(), hosts.begin())) return nullptr;
  return comm::GroupNews::open(
      parts.news, {parts.name, setup.uid, setup.rank, parts.global_ranks});
}

// The rounds over the store, and those over the board where they can serve.
struct Rounds {
  Rounds(const GroupPlan& plan, const comm::SetupPlan& setup)
      : store(*plan.parts.store, setup) {
    if (plan.call != nullptr && plan.parts.choices.size() == 1)
      board.emplace(*plan.call, plan.parent_ranks, store);
  }
  comm::SetupRounds& get() {
    return board.has_value() ? static_cast<comm::SetupRounds&>(*board) : store;
  }

  comm::StoreRounds store;
  std::optional<BoardCall::Rounds> board;
};

// The parent's communicator from which the backend may split the new one; null
// without one.
comm::BackendCommunicator* communicator_of(
    const std::shared_ptr<GroupState>& parent,
    const comm::BackendInstance& backend) {
  if (parent == nullptr) return nullptr;
  for (const Channel& channel : parent->channels())
    if (channel.communicator->instance() == &backend)
      return channel.communicator.get();
  return nullptr;
}

// `*comm` is the backend's communicator from the time it is built until the
// channel has taken it.
absl::StatusOr<Channel> build_channel(
    GroupPlan& plan, comm::SetupPlan& setup, comm::SetupRounds& rounds,
    std::shared_ptr<comm::BackendInstance> backend,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline,
    dw_comm** comm) {
  GroupParts& parts = plan.parts;
  // Reserves the group's page of the board before any rank has a communicator.
  const absl::StatusOr<comm::Board::Room> room =
      comm::Board::make_room(parts.board, parts.global_ranks);
  if (!room.ok()) {
    comm::refuse_communicator(rounds, setup, room.status(), deadline);
    return room.status();
  }
  std::shared_ptr<comm::GroupBoard> group_board = comm::GroupBoard::open(
      parts.board, {parts.name, setup.uid, setup.rank, parts.global_ranks});
  setup.watched = group_board != nullptr;
  const std::shared_ptr<GroupState> parent = parts.parent.lock();
  setup.parent = communicator_of(parent, *backend);
  const absl::StatusOr<comm::Built> built =
      comm::build_communicator(*backend, rounds, setup, deadline);
  if (!built.ok()) return built.status();
  *comm = built->comm;
  if (built->all_watched && group_board->sees_all() &&
      parts.group_board.expired())
    parts.group_board = group_board;
  const int32_t type = backend->device().type;
  comm::Identity identity{parts.name,
                          setup.rank,
                          setup.size,
                          parts.timeout,
                          record_as(plan, setup, backend->name()),
                          parts.hooks,
                          news_of(parts, setup)};
  Channel channel{type,
                  comm::BackendCommunicator::make(
                      std::move(identity), std::move(backend), built->comm,
                      comm::FirstFailure(parts.store,
                                         absl::StrCat(setup.keys, kFailureKey)),
                      watchdog, std::move(group_board))};
  *comm = nullptr;
  return channel;
}

// As build_channel; an exception becomes an error that the other ranks are
// told.
absl::StatusOr<Channel> build_or_tell(
    GroupPlan& plan, comm::SetupPlan& setup,
    const std::shared_ptr<comm::BackendInstance>& backend,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline) {
  Rounds rounds(plan, setup);
  dw_comm* comm = nullptr;
  try {
    return build_channel(plan, setup, rounds.get(), backend, watchdog, deadline,
                         &comm);
  } catch (...) {
    const absl::Status status = base::error_of_exception(plan.op);
    if (comm == nullptr) {
      comm::refuse_communicator(rounds.get(), setup, status, deadline);
    } else {
      // Other ranks have their communicator, and see the end of this rank's.
      constexpr dw_error kWhy{
          DW_RESOURCE_EXHAUSTED,  DW_REASON_OUT_OF_MEMORY, -1, 0, 0,
          "no memory for a group"};
      backend->api().comm_abort(comm, &kWhy);
      backend->api().comm_destroy(comm, 0, nullptr);
    }
    return status;
  }
}

absl::StatusOr<std::vector<Channel>> build_channels(
    GroupPlan& plan, Instances& instances,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline) {
  const auto backends =
      base::guarded(plan.op, [&] { return open_all(plan, instances); });
  if (!backends.ok()) {
    const comm::SetupPlan setup = setup_of(plan, 0, plan.parts.hints);
    Rounds rounds(plan, setup);
    comm::refuse_communicator(rounds.get(), setup, backends.status(), deadline);
    return backends.status();
  }
  std::vector<Channel> channels;
  for (size_t i = 0; i < backends->size(); ++i) {
    const std::shared_ptr<comm::BackendInstance>& backend = (*backends)[i];
    comm::SetupPlan setup = setup_of(
        plan, i, comm::hints_known_to({backend->engine()}, plan.parts.hints));
    absl::StatusOr<Channel> channel =
        build_or_tell(plan, setup, backend, watchdog, deadline);
    if (!channel.ok()) return channel.status();
    channels.push_back(*std::move(channel));
  }
  return channels;
}

}  // namespace

std::string first_channel_keys(const std::string& key_prefix) {
  return absl::StrCat(key_prefix, "0/");
}

absl::StatusOr<std::shared_ptr<GroupState>> build_group(
    GroupPlan plan, Instances& instances,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline) {
  const base::OwnWork own_work;
  plan.parts.hooks = std::make_shared<comm::HookList>(
      comm::HookList::Owner{plan.parts.name, plan.parts.uid, plan.parts.rank,
                            static_cast<int>(plan.parts.global_ranks.size())});
  absl::StatusOr<std::vector<Channel>> channels =
      build_channels(plan, instances, watchdog, deadline);
  if (!channels.ok())
    return base::amend_error(channels.status(), [&](ErrorInfo& info) {
      info.op = plan.op;
      info.group = plan.parts.name;
      info.my_rank = plan.parts.rank;
      info.group_size = static_cast<int>(plan.parts.global_ranks.size());
    });
  plan.parts.channels = *std::move(channels);
  return std::make_shared<GroupState>(std::move(plan.parts));
}

}  // namespace distwrap::group
