#include "crossing/board_crossing.h"

#include "base/host_identity.h"
#include "comm/setup.h"
#include "plugin/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::testing {
namespace {

template <class Result>
auto require(Result result) {
  if (!result.ok()) {
    fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
    exit(1);
  }
  return *std::move(result);
}

}  // namespace

BoardCrossing::BoardCrossing() : store_(Store::in_memory()) {
  std::vector<comm::DescriptorHandover> doors;
  std::vector<comm::BoardOffer> offers;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    doors.push_back(require(comm::DescriptorHandover::open()));
    offers.push_back(
        {base::host_identity(), doors.back().name(), uint64_t{rank} + 1});
  }
  // The lowest rank comes first, because it waits for no other.
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    ranks_[rank].board = require(comm::Board::meet(
        {.rank = static_cast<int>(rank),
         .heartbeat = absl::InfiniteDuration(),
         .watchdog = ranks_[rank].watchdog,
         .job = 1,
         .world_size = static_cast<int>(ranks_.size()),
         .host = "here"},
        std::move(doors[rank]), offers, Deadline::after(absl::Seconds(60))));
  auto table = require(plugin::Registry({}).find("loopback"));
  backend_ = require(comm::BackendInstance::open(std::move(table), kCpu, {}));
  std::shared_ptr<comm::GroupBoard> group_board =
      comm::GroupBoard::open(ranks_[0].board, {"shown", 1, 0, {0, 1}});
  if (group_board == nullptr) exit(1);
  shown_ = make("shown", std::move(group_board));
  unshown_ = make("unshown", nullptr);
}

BoardCrossing::~BoardCrossing() {
  shown_.reset();
  unshown_.reset();
  for (const Rank& rank : ranks_) rank.board->leave();
}

comm::BackendCommunicator::Ptr BoardCrossing::make(
    const char* group, std::shared_ptr<comm::GroupBoard> group_board) {
  dw_comm* const comm = require(comm::build_communicator(
      *backend_, *store_, {.group = group}, Deadline::never()));
  return comm::BackendCommunicator::make(
      {.group = group, .rank = 0, .size = 2}, backend_, comm,
      comm::FirstFailure(store_, "failure"), ranks_[0].watchdog,
      std::move(group_board));
}

}  // namespace distwrap::testing
