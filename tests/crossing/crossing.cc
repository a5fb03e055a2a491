#include "crossing/crossing.h"

#include "comm/setup.h"
#include "plugin/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string>

namespace distwrap::testing {
namespace {

void require(const absl::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  exit(1);
}

}  // namespace

Crossing::Crossing() {
  const absl::StatusOr<Session> session =
      init_process_group({.rank = 0, .world_size = 1});
  require(session.status());
  options_.group = session->world();
  const auto table = plugin::Registry({}).find("loopback");
  require(table.status());
  auto backend = comm::BackendInstance::open(*table, kCpu, {});
  require(backend.status());
  backend_ = *std::move(backend);
  const auto store = Store::in_memory();
  const auto built = comm::build_communicator(
      *backend_, *store, {.group = "straight"}, Deadline::never());
  require(built.status());
  comm_ = *built;
  runner_ = backend_->stack().runner(comm_, comm::kCollectiveOps);
  c_options_.struct_size = sizeof c_options_;
  if (distwrap_world(&c_options_.group, nullptr) != DW_OK) exit(1);
}

Crossing::~Crossing() {
  options_ = {};
  distwrap_group_free(c_options_.group);
  backend_->api().comm_destroy(comm_, 0, nullptr);
  destroy_process_group().IgnoreError();
}

}  // namespace distwrap::testing
