#include "group/group_build.h"

#include "base/error.h"
#include "comm/board/board.h"
#include "comm/setup.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace distwrap::group {
namespace {

// Every backend, before anything is built.
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
          .hints = std::move(hints),
          .keys = absl::StrCat(parts.key_prefix, index, "/"),
          .terms = absl::StrCat("backend ", terms_of(plan.parts.choices)),
          .parent_ranks = plan.parent_ranks};
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

// The store's, and the board's where they serve.
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

// What the backend may take the new communicator out of; null without one.
comm::BackendCommunicator* communicator_of(
    const std::shared_ptr<GroupState>& parent,
    const comm::BackendInstance& backend) {
  if (parent == nullptr) return nullptr;
  for (const Channel& channel : parent->channels())
    if (channel.communicator->instance() == &backend)
      return channel.communicator.get();
  return nullptr;
}

absl::StatusOr<Channel> build_channel(
    GroupPlan& plan, comm::SetupPlan& setup,
    std::shared_ptr<comm::BackendInstance> backend,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline) {
  GroupParts& parts = plan.parts;
  Rounds rounds(plan, setup);
  // What the host adds to a backend's communicator, before any rank has one.
  const absl::StatusOr<comm::Board::Room> room =
      comm::Board::make_room(parts.board, parts.global_ranks);
  if (!room.ok()) {
    comm::refuse_communicator(rounds.get(), setup, room.status(), deadline);
    return room.status();
  }
  std::shared_ptr<comm::Lane> lane = comm::Lane::open(
      parts.board, {parts.name, setup.uid, setup.rank, parts.global_ranks});
  setup.watched = lane != nullptr;
  const std::shared_ptr<GroupState> parent = parts.parent.lock();
  setup.parent = communicator_of(parent, *backend);
  const absl::StatusOr<comm::Built> built =
      comm::build_communicator(*backend, rounds.get(), setup, deadline);
  if (!built.ok()) return built.status();
  if (built->all_watched && lane->sees_all() && parts.lane.expired())
    parts.lane = lane;
  const int32_t type = backend->device().type;
  comm::Identity identity{parts.name,
                          setup.rank,
                          setup.size,
                          parts.timeout,
                          record_as(plan, setup, backend->name()),
                          parts.hooks};
  return Channel{type,
                 comm::BackendCommunicator::make(
                     std::move(identity), std::move(backend), built->comm,
                     comm::FirstFailure(parts.store,
                                        absl::StrCat(setup.keys, kFailureKey)),
                     watchdog, std::move(lane))};
}

absl::StatusOr<std::vector<Channel>> build_channels(
    GroupPlan& plan, Instances& instances,
    const std::shared_ptr<comm::Watchdog>& watchdog, Deadline deadline) {
  const auto backends = open_all(plan, instances);
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
        plan, i, comm::hints_known_to({backend->table()}, plan.parts.hints));
    absl::StatusOr<Channel> channel =
        build_channel(plan, setup, backend, watchdog, deadline);
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
