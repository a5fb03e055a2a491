#include "store/rendezvous.h"

#include "base/error.h"
#include "base/log.h"
#include "store/hosted_store.h"
#include "store/init_method.h"
#include "store/job_name.h"
#include "store/launch_manager.h"
#include "store/own_address.h"
#include "store/socket.h"

#include <absl/strings/str_cat.h>

#include <utility>

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

// Ranks that meet at another host would wait for each other in vain.
absl::Status check_host(absl::string_view host_and_port) {
  const absl::string_view host =
      host_and_port.substr(0, host_and_port.rfind(':'));
  if (is_own_address(host)) return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kUnsupported,
       .what = "the meeting place is on another host, but this version joins "
               "ranks of one host only",
       .op = "init",
       .expected = "localhost, or a name or address of this host",
       .actual = absl::StrCat("'", host, "'"),
       .next_step = "start all ranks on one host, and correct the address"});
}

absl::Status meet_by_method(const InitMethod& method,
                            const Environment& environment, Rendezvous* place) {
  if (method.kind == InitMethod::kTcp)
    if (absl::Status own = check_host(method.place); !own.ok()) return own;
  const char* const kind = method.kind == InitMethod::kTcp    ? "tcp"
                           : method.kind == InitMethod::kFile ? "file"
                                                              : "unix";
  const std::string name = meeting_name(kind, method.place);
  if (method.kind != InitMethod::kUnix || !fits_socket_address(method.place))
    return hosted(environment, name, place);
  place->job = name;
  place->hosted_path = method.place;
  place->address = absl::StrCat("unix:", method.place);
  return absl::OkStatus();
}

absl::Status meet_by_launcher(const LaunchInfo& info,
                              const Environment& environment,
                              Rendezvous* place) {
  place->job = job_name(info);
  place->address = info.store_address;
  if (!place->address.empty()) return absl::OkStatus();
  if (info.has_several_hosts())
    return error(Reason::kUnsupported,
                 absl::StrCat(info.launcher_title,
                              " started ranks on several hosts, "
                              "and this version joins those of "
                              "one (",
                              info.local_world_size, " of ", info.world_size,
                              " ranks are here)"),
                 "start all ranks on one host");
  if (place->job.empty())
    return error(Reason::kLaunchMissing,
                 absl::StrCat(info.launcher_title,
                              " tells rank and world size, but nothing that "
                              "only this job has"),
                 "set DISTWRAP_JOB_ID or MASTER_PORT to what no other job "
                 "has, or give InitOptions::init_method",
                 info.no_job_id);
  return hosted(environment, place->job, place);
}

// Rank and size were given by the program, so the launcher's job is not this
// one.
absl::Status meet_by_hand(bool by_environment, const Environment& environment,
                          Rendezvous* place) {
  const std::string master = by_environment ? master_address(environment) : "";
  if (!master.empty()) {
    if (absl::Status own = check_host(master); !own.ok()) return own;
    return hosted(environment, meeting_name("tcp", master), place);
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
  // A single rank needs no meeting place.
  if (request.has_store || place.world_size == 1) return place;
  const absl::Status status =
      method->kind != InitMethod::kEnvironment
          ? meet_by_method(*method, environment, &place)
      : by_hand
          ? meet_by_hand(!request.init_method.empty(), environment, &place)
          : meet_by_launcher(info, environment, &place);
  if (!status.ok()) return status;
  return place;
}

}  // namespace distwrap::store
