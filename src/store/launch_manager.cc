#include "store/launch_manager.h"

#include "distwrap/status.h"
#include "store/pmi_manager.h"
#include "store/pmix_client.h"
#include "store/several_hosts.h"

#include <absl/strings/str_cat.h>
#include <climits>

namespace distwrap::store {
namespace {

using base::Environment;

const LauncherRow& row_of(Launcher launcher) {
  return all_launchers()[static_cast<size_t>(launcher)];
}

absl::StatusOr<LaunchInfo> with_world_size(const Environment& environment,
                                           const LaunchNeeds& needs,
                                           const absl::Status& without) {
  const LauncherRow& pmix = row_of(Launcher::kPmix);
  const std::string forced =
      environment.get_or_default(base::Setting::kLauncher);
  if (error_reason(without) != Reason::kLaunchMissing || !needs.world_size ||
      !environment.get(pmix.rank).has_value() ||
      (forced != "auto" && forced != pmix.name))
    return without;
  const absl::StatusOr<int> size = pmix_job_size();
  if (!size.ok()) return size.status();
  Environment told = environment.with(pmix.size, absl::StrCat(*size));
  if (const absl::StatusOr<int> here = pmix_local_size(); here.ok())
    told = told.with(pmix.local_size, absl::StrCat(*here));
  return detect_launch(told, needs);
}

absl::StatusOr<LaunchInfo> with_manager(const Environment& environment,
                                        const LaunchNeeds& needs,
                                        LaunchInfo info) {
  const absl::StatusOr<std::optional<int>> fd =
      environment.get_int("PMI_FD", 0, INT_MAX);
  if (!fd.ok()) return fd.status();
  if (!fd->has_value()) return info;
  const absl::StatusOr<std::string> manager = pmi_manager(**fd);
  if (!manager.ok()) {
    info.no_job_id = std::string(manager.status().message());
    return info;
  }
  return detect_launch(environment.with("PMI_MANAGER", *manager), needs);
}

}  // namespace

absl::StatusOr<LaunchInfo> find_launch(const Environment& environment,
                                       const LaunchNeeds& needs) {
  absl::StatusOr<LaunchInfo> info = detect_launch(environment, needs);
  if (!info.ok()) return with_world_size(environment, needs, info.status());
  if (info->launcher != row_of(Launcher::kPmi).name ||
      !info->store_address.empty())
    return info;
  return with_manager(environment, needs, *std::move(info));
}

absl::StatusOr<std::string> find_first_host(const LaunchInfo& info,
                                            const Environment& environment) {
  std::string told = first_host(info, environment);
  const bool has_pmix = info.launcher == row_of(Launcher::kOmpi).name ||
                        info.launcher == row_of(Launcher::kPmix).name;
  if (!told.empty() || !has_pmix ||
      !environment.get(row_of(Launcher::kPmix).rank).has_value())
    return told;
  return pmix_first_host();
}

}  // namespace distwrap::store
