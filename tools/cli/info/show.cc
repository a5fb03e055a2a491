#include "columns.h"
#include "info/facts.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace distwrap::cli {
namespace {

JsonArray array_of(const std::vector<std::string>& texts) {
  return JsonArray(texts.begin(), texts.end());
}

std::string build_text(const BuildFacts& build) {
  return columns({{"version", build.version},
                  {"C ABI", build.abi},
                  {"compiler", build.compiler},
                  {"build", build.type},
                  {"sanitizer", build.sanitizer},
                  {"prefix", build.prefix},
                  {"TLS", build.tls ? "yes" : "no: jobs run on one host"},
                  {"guard", build.guard.empty() ? "-" : build.guard}},
                 "  ");
}

std::string backends_text(const std::vector<BackendFacts>& backends) {
  std::vector<Row> rows;
  for (const BackendFacts& backend : backends)
    rows.push_back({backend.name,
                    backend.refusal.empty() ? backend.version : "refused",
                    absl::StrJoin(backend.devices, ","), backend.origin});
  std::string text = columns(rows, "  ");
  for (const BackendFacts& backend : backends)
    if (!backend.refusal.empty())
      absl::StrAppend(&text, "  ", backend.refusal, "\n");
  return text;
}

std::string settings_text(const Facts& facts) {
  std::vector<Row> rows;
  for (const SettingFacts& setting : facts.settings)
    rows.push_back({setting.name, setting.value.empty() ? "-" : setting.value,
                    setting.source, setting.error.empty() ? "" : "NOT USABLE"});
  for (const auto& unknown : facts.unknown)
    rows.push_back(
        {unknown.name, "unknown; the nearest is " + unknown.nearest});
  std::string text = columns(rows, "  ");
  for (const SettingFacts& setting : facts.settings)
    if (!setting.error.empty())
      absl::StrAppend(&text, "  ", setting.error, "\n");
  return text;
}

std::string launch_text(const LaunchFacts& launch) {
  if (launch.is_wrong) return absl::StrCat("  ", launch.error, "\n");
  if (launch.launcher.empty()) return "  none\n";
  std::vector<Row> rows;
  for (const LaunchFacts::Value& value : launch.values)
    rows.push_back({value.name, value.value, value.origin});
  std::string text =
      absl::StrCat("  ", launch.launcher, "\n", columns(rows, "  "));
  for (const LaunchFacts::Ignored& other : launch.ignored)
    absl::StrAppend(&text, "  ignored: ", other.text, "\n");
  return text;
}

JsonObject launch_json(const LaunchFacts& launch) {
  JsonArray values;
  for (const LaunchFacts::Value& value : launch.values)
    values.push_back(JsonObject{{"name", value.name},
                                {"value", value.value},
                                {"origin", value.origin}});
  JsonArray ignored;
  for (const LaunchFacts::Ignored& other : launch.ignored)
    ignored.push_back(JsonObject{{"launcher", other.text},
                                 {"describes_node", other.describes_node}});
  return {{"found", !launch.launcher.empty()},
          {"launcher", launch.launcher},
          {"error", launch.error},
          {"values", values},
          {"ignored", ignored}};
}

}  // namespace

std::string to_text(const Facts& facts) {
  return absl::StrCat("build\n", build_text(facts.build), "\nbackends\n",
                      backends_text(facts.backends), "\nsettings\n",
                      settings_text(facts), "\nlauncher\n",
                      launch_text(facts.launch));
}

JsonObject to_json(const Facts& facts) {
  JsonArray backends, settings, unknown;
  for (const BackendFacts& backend : facts.backends)
    backends.push_back(JsonObject{{"name", backend.name},
                                  {"origin", backend.origin},
                                  {"version", backend.version},
                                  {"devices", array_of(backend.devices)},
                                  {"loadable", backend.refusal.empty()},
                                  {"protects_data", backend.protects_data},
                                  {"refusal", backend.refusal}});
  for (const SettingFacts& setting : facts.settings)
    settings.push_back(JsonObject{{"name", setting.name},
                                  {"value", setting.value},
                                  {"source", setting.source},
                                  {"error", setting.error}});
  for (const auto& setting : facts.unknown)
    unknown.push_back(
        JsonObject{{"name", setting.name}, {"nearest", setting.nearest}});
  const BuildFacts& build = facts.build;
  return {{"schema", 1},
          {"tool", "distwrap info"},
          {"build", JsonObject{{"version", build.version},
                               {"abi", build.abi},
                               {"compiler", build.compiler},
                               {"type", build.type},
                               {"sanitizer", build.sanitizer},
                               {"prefix", build.prefix},
                               {"tls", build.tls},
                               {"guard", build.guard}}},
          {"backends", backends},
          {"settings", settings},
          {"unknown_settings", unknown},
          {"launch", launch_json(facts.launch)}};
}

}  // namespace distwrap::cli
