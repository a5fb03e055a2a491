#include "info/facts.h"

#include "base/error.h"
#include "base/secrets.h"
#include "distwrap/abi/note.h"
#include "plugin/allow_list.h"
#include "plugin/module_paths.h"
#include "store/launch_manager.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

namespace distwrap::cli {
namespace {

std::string compiler() {
#ifdef __clang__
  return absl::StrCat("clang ", __clang_major__, ".", __clang_minor__, ".",
                      __clang_patchlevel__);
#else
  return absl::StrCat("gcc ", __VERSION__);
#endif
}

const char* sanitizer_name(uint32_t sanitizer) {
  switch (sanitizer) {
    case DW_SANITIZER_ADDRESS:
      return "address";
    case DW_SANITIZER_THREAD:
      return "thread";
    case DW_SANITIZER_MEMORY:
      return "memory";
    default:
      return "none";
  }
}

std::vector<std::string> device_names(uint32_t devices) {
  std::vector<std::string> names;
  for (int device = 0; device < 32; ++device) {
    if ((devices & DW_BIT(device)) == 0) continue;
    names.push_back(device_type_name(device));
  }
  return names;
}

// The name of a linked-in backend; otherwise the path, which distinguishes two
// plugins of one name.
std::string key_of(const plugin::Registry::Entry& entry) {
  return absl::StartsWith(entry.origin, "/") ? entry.origin : entry.name;
}

// Whether a launcher has set a rank without a size, or a size without a rank.
bool is_half_set(const base::Environment& environment) {
  const auto rows = store::all_launchers();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const store::LauncherRow& row) {
                       return environment.get(row.rank).has_value() !=
                              environment.get(row.size).has_value();
                     });
}

}  // namespace

std::string device_type_name(int type) {
  return type == DW_DEVICE_CPU    ? "cpu"
         : type == DW_DEVICE_CUDA ? "cuda"
                                  : absl::StrCat(type);
}

BuildFacts build_facts() {
  return {.version = std::string(base::library_version()),
          .abi = absl::StrCat(DW_ABI_MAJOR, ".", DW_ABI_MINOR),
          .compiler = compiler(),
          .type = DISTWRAP_BUILD_TYPE,
          .sanitizer = sanitizer_name(DW_SANITIZER),
          .prefix = plugin::install_prefix(),
          .guard = plugin::guard_path(),
          .tls = base::check_secrets().ok()};
}

absl::StatusOr<std::unique_ptr<plugin::Registry>> registry_of(
    const base::Environment& environment) {
  plugin::AllowList allowed;
  if (const auto list = environment.get(base::Setting::kPluginAllow)) {
    absl::StatusOr<plugin::AllowList> read = plugin::AllowList::read(*list);
    if (!read.ok()) return read.status();
    allowed = *std::move(read);
  }
  return std::make_unique<plugin::Registry>(plugin::plugin_folders(environment),
                                            plugin::linked_in(),
                                            plugin::ProbeOptions{}, allowed);
}

std::vector<BackendFacts> backend_facts(plugin::Registry& registry) {
  std::vector<BackendFacts> all;
  for (const plugin::Registry::Entry& entry : registry.list()) {
    BackendFacts facts;
    facts.name = entry.name;
    facts.origin = entry.origin;
    const absl::StatusOr<plugin::BackendPtr> backend =
        registry.find(key_of(entry));
    if (backend.ok()) {
      facts.version = (*backend)->version();
      facts.devices = device_names((*backend)->api().devices);
      facts.protects_data =
          ((*backend)->api().flags & DW_BACKEND_PROTECTS_DATA) != 0;
    } else {
      facts.refusal = std::string(backend.status().message());
    }
    all.push_back(std::move(facts));
  }
  return all;
}

std::vector<SettingFacts> setting_facts(const base::Environment& environment) {
  std::vector<SettingFacts> all;
  for (const base::SettingInfo& setting : base::all_settings()) {
    SettingFacts facts;
    facts.name = std::string(setting.name);
    facts.value = environment.get_or_default(setting.setting);
    facts.source = environment.get(setting.setting).has_value() ? "environment"
                                                                : "default";
    if (const absl::Status status = environment.check(setting.setting);
        !status.ok())
      facts.error = std::string(status.message());
    all.push_back(std::move(facts));
  }
  return all;
}

LaunchFacts launch_facts(const base::Environment& environment) {
  LaunchFacts facts;
  const absl::StatusOr<store::LaunchInfo> launch =
      store::find_launch(environment);
  if (!launch.ok()) {
    facts.error = std::string(launch.status().message());
    facts.is_wrong = error_reason(launch.status()) != Reason::kLaunchMissing ||
                     is_half_set(environment);
    return facts;
  }
  facts.launcher = launch->launcher_title;
  for (const store::LaunchInfo::Fact& fact : launch->facts)
    facts.values.push_back({fact.name, fact.value, fact.origin});
  for (const store::LaunchInfo::Ignored& other : launch->ignored)
    facts.ignored.push_back(
        {absl::StrCat(other.launcher_title, ": rank ", other.rank, " of ",
                      other.world_size,
                      other.describes_node ? ", which describes the node" : ""),
         other.describes_node});
  return facts;
}

}  // namespace distwrap::cli
