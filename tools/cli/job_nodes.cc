// How a job of several nodes comes together, and ends.
#include "base/settings.h"
#include "job.h"
#include "store/several_hosts.h"
#include "store/store_place.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::cli {
namespace {

using base::Setting;

// The name of the job under which nodes ask for its key. Hosts may spell one
// address in several ways, so it has only the port.
std::string meeting_job(const store::HostPort& meeting) {
  return absl::StrCat("run-", meeting.port);
}

}  // namespace

absl::Status Job::open_store() {
  const std::string path = directory_->path() + "/store";
  world_size_ = options_.ranks;
  if (options_.nodes == 1 || options_.node == 0) {
    auto server = store::Server::listen(&loop_, path);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
  }
  if (options_.nodes == 1) return absl::OkStatus();
  if (absl::Status status = gather(); !status.ok()) return status;
  if (signalled_ != 0 || server_ != nullptr) return absl::OkStatus();
  const auto root = store::HostPort::parse(nodes_->joined()->value().root);
  const auto addresses = store::resolve(root.value_or(options_.meeting));
  if (!addresses.ok()) return addresses.status();
  auto relay =
      store::Relay::listen(&loop_, path, addresses->front(), meeting_psk_);
  if (!relay.ok()) return relay.status();
  relay_ = *std::move(relay);
  return absl::OkStatus();
}

// Runs the loop until all nodes have come, or a signal asks the job to end.
absl::Status Job::gather() {
  const base::Environment environment = base::Environment::of_process();
  const auto patience = environment.get_seconds(Setting::kInitTimeout);
  const auto silence = environment.get_seconds(Setting::kHeartbeat);
  if (!patience.ok()) return patience.status();
  if (!silence.ok()) return silence.status();
  const std::string meeting = options_.meeting.text();
  auto place = store::StorePlace::parse(absl::StrCat("tls://", meeting),
                                        meeting_job(options_.meeting));
  if (!place.ok()) return place.status();
  meeting_psk_ = place->psk();
  std::string root;
  if (server_ != nullptr) {
    if (absl::Status status =
            server_->listen_at({.host = options_.meeting.host,
                                .ports = {options_.meeting.port},
                                .psk = meeting_psk_});
        !status.ok())
      return status;
    root = server_->network_address();
    place = store::StorePlace::parse(
        absl::StrCat("unix:", directory_->path(), "/store"));
    if (!place.ok()) return place.status();
  }
  own_address_ = store::source_address(options_.meeting);
  nodes_ = std::make_unique<Nodes>(
      Nodes::Plan{options_.nodes, options_.node, *patience, *silence},
      [this] { uv_async_send(&news_); });
  if (absl::Status status =
          nodes_->join(*std::move(place), options_.ranks, job_id_, root);
      !status.ok())
    return status;
  while (!nodes_->joined().has_value() && signalled_ == 0)
    uv_run(&loop_, UV_RUN_ONCE);
  if (signalled_ != 0) {
    code_ = 128 + signalled_;
    return absl::OkStatus();
  }
  const absl::StatusOr<Nodes::Joined> joined = *nodes_->joined();
  if (!joined.ok()) return joined.status();
  first_rank_ = joined->first_rank;
  world_size_ = joined->world_size;
  job_id_ = joined->job_id;
  return absl::OkStatus();
}

// There is news of other nodes.
void Job::on_nodes() {
  if (nodes_ == nullptr || stage_ == Stage::kGathering) return;
  for (const std::string& failure : nodes_->take_failures()) {
    say(absl::StrCat(failure,
                     living() > 0 && stage_ == Stage::kRunning
                         ? absl::StrCat("; the ranks here are ended in ",
                                        absl::FormatDuration(options_.grace))
                         : ""));
    if (code_ == 0) code_ = 1;
    if (stage_ != Stage::kRunning) continue;
    stage_ = Stage::kGrace;
    set_timer(options_.grace);
  }
}

// Whether this node may leave: all nodes have ended, and node 0 also waits
// until the others have heard it, for a little.
bool Job::nodes_have_ended() {
  if (nodes_ == nullptr || leaves_ || stage_ == Stage::kGathering) return true;
  if (!nodes_->all_ended()) return false;
  if (!std::exchange(told_leaving_, true)) {
    nodes_->tell_leaving();
    set_timer(kTermTime);
  }
  return nodes_->may_leave();
}

}  // namespace distwrap::cli
