#include "group/session_plan.h"

#include "algo/objects/limit.h"
#include "base/error.h"
#include "base/log.h"
#include "plugin/module_paths.h"
#include "store/launch_info.h"
#include "store/run_directory.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <signal.h>
#include <utility>

namespace distwrap::group {
namespace {

ErrorInfo init_error(Reason reason, std::string what, std::string next_step) {
  return {.reason = reason,
          .what = std::move(what),
          .op = "init",
          .next_step = std::move(next_step)};
}

absl::StatusOr<absl::Duration> timeout_of(
    const std::optional<absl::Duration>& given, base::Setting setting,
    const base::Environment& environment) {
  if (!given.has_value()) return environment.get_seconds(setting);
  if (*given > absl::ZeroDuration()) return *given;
  ErrorInfo info =
      init_error(Reason::kInvalidArgument, "a timeout is not positive",
                 "leave it unset for the default, or give InfiniteDuration");
  info.actual = absl::FormatDuration(*given);
  return base::make_error(info);
}

// The mode of a word that the setting takes.
GuardMode guard_of(absl::string_view word) {
  if (word == "warn") return GuardMode::kWarn;
  if (word == "block") return GuardMode::kBlock;
  return word == "require" ? GuardMode::kRequire : GuardMode::kOff;
}

// The rank's number on its host, which chooses its device; 0 when no launcher
// gives it.
int local_rank_of(const base::Environment& environment) {
  const absl::StatusOr<store::LaunchInfo> launch =
      store::detect_launch(environment, {.rank = false, .world_size = false});
  return launch.ok() ? std::max(launch->local_rank, 0) : 0;
}

// Ranks look at each other 40 times a second; a verdict needs several looks.
constexpr absl::Duration kLeastHeartbeat = absl::Milliseconds(200);

absl::StatusOr<absl::Duration> plan_heartbeat(
    const base::Environment& environment) {
  const absl::StatusOr<absl::Duration> given =
      environment.get_seconds(base::Setting::kHeartbeat);
  if (!given.ok() || *given >= kLeastHeartbeat) return given;
  ErrorInfo info =
      init_error(Reason::kInvalidArgument, "DISTWRAP_HEARTBEAT is too short",
                 "set DISTWRAP_HEARTBEAT=5, or leave it unset");
  info.expected =
      absl::StrCat("at least ", absl::FormatDuration(kLeastHeartbeat));
  info.actual = absl::FormatDuration(*given);
  return base::make_error(info);
}

absl::StatusOr<comm::RecordingPlan> plan_recording(
    const base::Environment& environment) {
  using base::Setting;
  for (const Setting setting :
       {Setting::kRecorder, Setting::kRecorderDir, Setting::kRecorderSignal})
    if (absl::Status status = environment.check(setting); !status.ok())
      return status;
  comm::RecordingPlan plan;
  plan.on = environment.get_flag(base::setting_name(Setting::kRecorder))
                ->value_or(true);
  if (!plan.on) return plan;
  const std::string signal =
      environment.get_or_default(Setting::kRecorderSignal);
  plan.signal = signal == "USR1" ? SIGUSR1 : signal == "USR2" ? SIGUSR2 : 0;
  plan.folder = environment.get(Setting::kRecorderDir).value_or("");
  if (!plan.folder.empty()) return plan;
  // Without a folder the session still runs; saving a recording then fails with
  // the reason.
  plan.parent = store::user_directory_path(environment).value_or("");
  return plan;
}

}  // namespace

absl::StatusOr<SessionPlan> plan_session(const InitOptions& options,
                                         const base::Environment& environment) {
  if (const auto level = environment.get(base::Setting::kLog);
      level.has_value() && !base::set_log_level(*level)) {
    ErrorInfo info =
        init_error(Reason::kInvalidArgument, "DISTWRAP_LOG is not usable",
                   "correct or unset DISTWRAP_LOG");
    info.expected = "error, warning, info or debug";
    info.actual = absl::StrCat("'", *level, "'");
    return base::make_error(info);
  }
  const absl::StatusOr<std::optional<int>> object_bytes =
      environment.get_int(base::setting_name(base::Setting::kObjectMaxBytes),
                          1024, std::numeric_limits<int>::max());
  if (!object_bytes.ok()) return object_bytes.status();
  if (object_bytes->has_value())
    objects::set_max_bytes(static_cast<uint64_t>(**object_bytes));
  SessionPlan plan;
  absl::StatusOr<absl::Duration> timeout = timeout_of(
      options.init_timeout, base::Setting::kInitTimeout, environment);
  if (!timeout.ok()) return timeout.status();
  plan.init_timeout = *timeout;
  timeout = timeout_of(options.timeout, base::Setting::kTimeout, environment);
  if (!timeout.ok()) return timeout.status();
  plan.timeout = *timeout;

  const absl::StatusOr<std::optional<store::JobKey>> key =
      store::JobKey::of_process();
  if (!key.ok()) return key.status();
  absl::StatusOr<store::Rendezvous> place =
      store::find_rendezvous({.rank = options.rank,
                              .world_size = options.world_size,
                              .init_method = options.init_method,
                              .has_store = options.store != nullptr,
                              .key = *key},
                             environment);
  if (!place.ok()) return place.status();
  plan.place = *std::move(place);
  plan.rank = plan.place.rank;
  plan.world_size = plan.place.world_size;
  plan.store = options.store;
  if (plan.store == nullptr && plan.world_size == 1)
    plan.store = Store::in_memory();

  const absl::StatusOr<std::optional<bool>> drop_in =
      environment.get_flag(base::setting_name(base::Setting::kDropIn));
  if (!drop_in.ok()) return drop_in.status();
  plan.drop_in = options.drop_in.value_or(drop_in->value_or(false));
  if (plan.drop_in && options.backend.empty())
    return base::make_error(init_error(Reason::kBackendMissing,
                                       "backend must be specified",
                                       "give InitOptions::backend"));
  plan.backend = !options.backend.empty()
                     ? options.backend
                     : environment.get_or_default(base::Setting::kBackend);
  plan.group_name = options.group_name;
  plan.hints = options.hints;
  plan.interrupt_fd = options.interrupt_fd;
  if (options.device_id.has_value()) {
    if (*options.device_id < 0) {
      ErrorInfo info = init_error(Reason::kInvalidArgument,
                                  "InitOptions::device_id is negative",
                                  "give the index of a device, or none");
      info.actual = absl::StrCat(*options.device_id);
      return base::make_error(info);
    }
    plan.device_id = *options.device_id;
  } else if (options.rank < 0) {
    plan.device_id = local_rank_of(environment);
  }
  const absl::StatusOr<std::optional<bool>> clear_data =
      environment.get_flag(base::setting_name(base::Setting::kClearData));
  if (!clear_data.ok()) return clear_data.status();
  plan.clear_data = clear_data->value_or(true);
  if (absl::Status checked = environment.check(base::Setting::kCheck);
      !checked.ok())
    return checked;
  if (options.ranks_per_node.has_value()) {
    if (*options.ranks_per_node < 1) {
      ErrorInfo info = init_error(Reason::kInvalidArgument,
                                  "InitOptions::ranks_per_node is not positive",
                                  "give how many ranks count as on one host, "
                                  "or leave it unset");
      info.actual = absl::StrCat(*options.ranks_per_node);
      return base::make_error(info);
    }
    plan.ranks_per_node = *options.ranks_per_node;
  }
  const std::string check = environment.get_or_default(base::Setting::kCheck);
  plan.check = options.check.has_value() ? *options.check != Check::kOff
                                         : check != "off";
  plan.full_check = options.check.has_value() ? *options.check == Check::kFull
                                              : check == "full";
  if (absl::Status checked = environment.check(base::Setting::kGuard);
      !checked.ok())
    return checked;
  plan.guard = options.guard.value_or(
      guard_of(environment.get_or_default(base::Setting::kGuard)));
  const absl::StatusOr<absl::Duration> heartbeat = plan_heartbeat(environment);
  if (!heartbeat.ok()) return heartbeat.status();
  plan.heartbeat = *heartbeat;
  const absl::StatusOr<absl::Duration> straggler =
      timeout_of(options.straggler, base::Setting::kStraggler, environment);
  if (!straggler.ok()) return straggler.status();
  plan.straggler = *straggler;
  absl::StatusOr<comm::RecordingPlan> recording = plan_recording(environment);
  if (!recording.ok()) return recording.status();
  plan.recording = *std::move(recording);
  if (absl::Status status = environment.check(base::Setting::kTrace);
      !status.ok())
    return status;
  plan.trace_folder = environment.get(base::Setting::kTrace).value_or("");
  if (absl::Status status = environment.check(base::Setting::kTuning);
      !status.ok())
    return status;
  if (const auto path = environment.get(base::Setting::kTuning)) {
    absl::StatusOr<TuningFile> tuning = TuningFile::read(*path);
    if (!tuning.ok()) return tuning.status();
    plan.tuning = *std::move(tuning);
  }
  plan.plugin_folders = plugin::plugin_folders(environment);
  if (const auto list = environment.get(base::Setting::kPluginAllow)) {
    absl::StatusOr<plugin::AllowList> allowed = plugin::AllowList::read(*list);
    if (!allowed.ok()) return allowed.status();
    plan.allowed_plugins = *std::move(allowed);
  }
  return plan;
}

}  // namespace distwrap::group
