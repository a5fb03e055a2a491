#include "store/rendezvous.h"

#include "base/error.h"
#include "base/host_identity.h"
#include "base/log.h"
#include "store/hosted_store.h"
#include "store/init_method.h"
#include "store/job_name.h"
#include "store/launch_manager.h"
#include "store/network_address.h"
#include "store/own_address.h"
#include "store/several_hosts.h"
#include "store/socket.h"
#include "store/store_place.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <utility>
#include <vector>

namespace distwrap::store {
namespace {

using base::Environment;

absl::Status error(Reason reason, std::string what, std::string next_step,
                   std::string cause = {}) {
  return base::make_error({.reason = reason,
                           .what = std::move(what),
                           .op = "init",
                           .cause = std::move(cause),
                           .next_step = std::move(next_step)});
}

absl::Status check_place(int rank, int world_size) {
  if (world_size >= 1 && rank >= 0 && rank < world_size)
    return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kInvalidArgument,
       .what = "the rank is not within the world size",
       .op = "init",
       .expected = "0 <= rank < world size",
       .actual = absl::StrCat("rank ", rank, ", world size ", world_size),
       .next_step = "correct InitOptions::rank and ::world_size"});
}

void warn_of_ignored(const LaunchInfo& info) {
  if (info.rank > 0) return;  // one line for each job
  for (const LaunchInfo::Ignored& other : info.ignored)
    if (!other.describes_node)
      base::log(
          base::LogLevel::kWarning,
          absl::StrCat("rank ", info.rank, " of ", info.world_size, " is what ",
                       info.launcher_title, " told; ", other.launcher_title,
                       " told rank ", other.rank, " of ", other.world_size,
                       ", which is ignored; DISTWRAP_LAUNCHER picks "
                       "one"));
}

absl::Status hosted(const Environment& environment, const std::string& name,
                    Rendezvous* place) {
  absl::StatusOr<std::string> path = meeting_path(environment, name);
  if (!path.ok()) return path.status();
  place->job = name;
  place->hosted_path = *path;
  place->address = absl::StrCat("unix:", *path);
  return absl::OkStatus();
}

// Ranks that share a host with the address meet there by a Unix socket; rank 0
// also serves the other hosts, if it has the job's key. The ranks of other
// hosts go to the address.
absl::Status across_hosts(const std::vector<HostPort>& places,
                          const Environment& environment,
                          const std::optional<JobKey>& key, bool always_listen,
                          Rendezvous* place) {
  const std::string& host = places[0].host;
  std::string address = absl::StrCat("tls://", places[0].text());
  for (size_t i = 1; i < places.size(); ++i)
    absl::StrAppend(&address, ",", places[i].port);
  if (is_own_address(host)) {
    if (absl::Status status = hosted(environment, place->job, place);
        !status.ok())
      return status;
    if (place->rank != 0) place->taken_for_own = host;
    const bool listens = always_listen || !says_loopback(host);
    if (!listens || !key.has_value()) return absl::OkStatus();
    place->own_address = source_address(places[0]);
    if (place->rank != 0) return absl::OkStatus();
    place->network = NetworkService{
        .host = host, .psk = {job_identity(place->job), key->control()}};
    for (const HostPort& one : places)
      place->network->ports.push_back(one.port);
    return absl::OkStatus();
  }
  if (!key.has_value()) return JobKey::missing("joining the job at", address);
  if (place->rank == 0)
    return error(Reason::kStoreUnreachable,
                 absl::StrCat("rank 0 serves the store, and '", host,
                              "' is no address of this host"),
                 "give an address of the host on which rank 0 runs");
  place->address = std::move(address);
  place->own_address = source_address(places[0]);
  // Hosts may share a folder. Without a folder each rank goes by itself.
  place->agent_path =
      meeting_path(environment,
                   meeting_name("agent", absl::StrCat(place->job, " ",
                                                      base::host_identity())))
          .value_or("");
  return absl::OkStatus();
}

absl::Status bad_store_address(const std::string& address) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = "DISTWRAP_STORE is not usable",
                           .op = "init",
                           .expected = "unix:/path or tls://host:port",
                           .actual = absl::StrCat("'", address, "'"),
                           .next_step = "correct DISTWRAP_STORE"});
}

// The address that DISTWRAP_STORE gives. Rank 0 serves one between hosts.
absl::Status meet_at_store(const std::string& address,
                           const Environment& environment,
                           const std::optional<JobKey>& key,
                           Rendezvous* place) {
  absl::string_view rest = address;
  if (!absl::ConsumePrefix(&rest, "tls://")) {
    place->address = address;
    return absl::OkStatus();
  }
  const std::vector<HostPort> places = parse_places(rest);
  if (places.empty()) return bad_store_address(address);
  if (!key.has_value()) return JobKey::missing("the store at", address);
  if (place->job.empty()) place->job = meeting_name("tls", rest);
  return across_hosts(places, environment, key, true, place);
}

absl::Status meet_by_method(const InitMethod& method,
                            const Environment& environment,
                            const std::optional<JobKey>& key,
                            Rendezvous* place) {
  const char* const kind = method.kind == InitMethod::kTcp    ? "tcp"
                           : method.kind == InitMethod::kFile ? "file"
                                                              : "unix";
  const std::string name = meeting_name(kind, method.place);
  if (method.kind == InitMethod::kTcp) {
    place->job = name;
    return across_hosts(parse_places(method.place), environment, key, false,
                        place);
  }
  if (method.kind != InitMethod::kUnix || !fits_socket_address(method.place))
    return hosted(environment, name, place);
  place->job = name;
  place->hosted_path = method.place;
  place->address = absl::StrCat("unix:", method.place);
  return absl::OkStatus();
}

absl::Status meet_by_launcher(const LaunchInfo& info,
                              const Environment& environment,
                              const std::optional<JobKey>& key,
                              Rendezvous* place) {
  place->job = job_name(info);
  if (!info.store_address.empty())
    return meet_at_store(info.store_address, environment, key, place);
  if (place->job.empty())
    return error(Reason::kLaunchMissing,
                 absl::StrCat(info.launcher_title,
                              " tells rank and world size, but nothing that "
                              "only this job has"),
                 "set DISTWRAP_JOB_ID or MASTER_PORT to what no other job "
                 "has, or give InitOptions::init_method",
                 info.no_job_id);
  if (!info.has_several_hosts()) return hosted(environment, place->job, place);
  const absl::StatusOr<std::string> host = find_first_host(info, environment);
  if (!host.ok() || host->empty())
    return error(
        Reason::kUnsupported,
        absl::StrCat(info.launcher_title,
                     " started ranks on several hosts and names none of them (",
                     info.local_world_size, " of ", info.world_size,
                     " ranks are here)"),
        "set DISTWRAP_STORE=tls://host:port on all hosts, with an address of "
        "the host of rank 0",
        host.ok() ? "" : base::cause_text(host.status()));
  if (!key.has_value())
    return JobKey::missing("a job on several hosts that meets at", *host);
  return across_hosts(job_ports(*host, place->job), environment, key, true,
                      place);
}

// Rank and size were given by the program, so the launcher's job is not this
// one.
absl::Status meet_by_hand(bool by_environment, const Environment& environment,
                          const std::optional<JobKey>& key, Rendezvous* place) {
  if (const auto address = environment.get(base::Setting::kStore);
      by_environment && address.has_value())
    return meet_at_store(*address, environment, key, place);
  const std::string master = by_environment ? master_address(environment) : "";
  const std::vector<HostPort> places = parse_places(master);
  if (!master.empty() && places.empty())
    return base::make_error({.reason = Reason::kInvalidArgument,
                             .what = "MASTER_ADDR and MASTER_PORT are not "
                                     "usable",
                             .op = "init",
                             .expected = "a host and a port from 1 to 65535",
                             .actual = absl::StrCat("'", master, "'"),
                             .next_step = "correct MASTER_PORT"});
  if (!master.empty()) {
    place->job = meeting_name("tcp", master);
    return across_hosts(places, environment, key, false, place);
  }
  return error(
      Reason::kLaunchMissing,
      by_environment
          ? "rank and world size were given, but MASTER_PORT is not set"
          : "rank and world size were given, but no store to meet in",
      "give InitOptions::store or ::init_method, or start with `distwrap run "
      "-n N`");
}

}  // namespace

absl::StatusOr<Rendezvous> find_rendezvous(const InitRequest& request,
                                           const Environment& environment) {
  if (request.has_store && !request.init_method.empty())
    return error(Reason::kStoreConflict,
                 absl::StrCat("a store was given and init method '",
                              request.init_method, "'"),
                 "give one of InitOptions::store and ::init_method");
  const absl::StatusOr<InitMethod> method =
      parse_init_method(request.init_method);
  if (!method.ok()) return method.status();
  Rendezvous place;
  place.rank = request.rank >= 0 ? request.rank : method->rank;
  place.world_size =
      request.world_size >= 0 ? request.world_size : method->world_size;
  const LaunchNeeds needs{.rank = place.rank < 0,
                          .world_size = place.world_size < 0};
  const bool by_hand = !needs.rank && !needs.world_size;
  LaunchInfo info;
  if (!by_hand) {
    absl::StatusOr<LaunchInfo> found = find_launch(environment, needs);
    if (!found.ok()) return found.status();
    info = *std::move(found);
    if (needs.rank) place.rank = info.rank;
    if (needs.world_size) place.world_size = info.world_size;
    warn_of_ignored(info);
  }
  if (absl::Status status = check_place(place.rank, place.world_size);
      !status.ok())
    return status;
  const std::string given =
      environment.get(base::Setting::kAddress).value_or("");
  place.own_address = given;
  // A single rank needs no meeting place.
  if (request.has_store || place.world_size == 1) return place;
  const absl::Status status =
      method->kind != InitMethod::kEnvironment
          ? meet_by_method(*method, environment, request.key, &place)
      : by_hand ? meet_by_hand(!request.init_method.empty(), environment,
                               request.key, &place)
                : meet_by_launcher(info, environment, request.key, &place);
  if (!status.ok()) return status;
  if (!given.empty()) place.own_address = given;
  return place;
}

}  // namespace distwrap::store
