// The facts that `distwrap info` shows: this build, its backends, the settings
// in force and the launcher.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_INFO_FACTS_H_
#define DISTWRAP_TOOLS_CLI_INFO_FACTS_H_

#include "base/settings.h"
#include "json_value.h"
#include "plugin/registry.h"

#include <memory>
#include <string>
#include <vector>

namespace distwrap::cli {

struct BuildFacts {
  std::string version, abi, compiler, type, sanitizer, prefix,
      guard;         // the library to preload; empty where there is none
  bool tls = false;  // jobs may have several hosts
};

struct BackendFacts {
  std::string name, origin, version;
  std::vector<std::string> devices;
  std::string refusal = {};    // why it cannot be loaded; else empty
  bool protects_data = false;  // true: it encrypts what leaves the host
};

struct SettingFacts {
  std::string name, value;
  std::string source;      // "environment" or "default"
  std::string error = {};  // why the value cannot be used
};

struct LaunchFacts {
  struct Value {
    std::string name, value, origin;
  };
  std::string launcher = {};  // title for people; empty when there is none
  std::string error = {};     // why there is none
  bool is_wrong = false;      // variables contradict each other or are half set
  std::vector<Value> values = {};
  // Launchers further out. A launcher that describes the node, as srun in `srun
  // torchrun`, is no contradiction.
  struct Ignored {
    std::string text;
    bool describes_node;
  };
  std::vector<Ignored> ignored = {};
};

struct Facts {
  BuildFacts build;
  std::vector<BackendFacts> backends;
  std::vector<SettingFacts> settings;
  std::vector<base::Environment::Unknown> unknown;
  LaunchFacts launch;
};

// "cpu", "cuda", or the number of DLPack.
std::string device_type_name(int type);

BuildFacts build_facts();
// Loads each backend, as a job would.
std::vector<BackendFacts> backend_facts(plugin::Registry& registry);
std::vector<SettingFacts> setting_facts(const base::Environment& environment);
LaunchFacts launch_facts(const base::Environment& environment);

// The backends that a job in this environment has. Errors: those of the list
// that DISTWRAP_PLUGIN_ALLOW names.
absl::StatusOr<std::unique_ptr<plugin::Registry>> registry_of(
    const base::Environment& environment);

std::string to_text(const Facts& facts);
JsonObject to_json(const Facts& facts);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_FACTS_H_
