#include "info_command.h"

#include "base/nearest.h"
#include "bench/json.h"
#include "info/backend_rows.h"
#include "info/capability_table.h"
#include "info/error_pages.h"
#include "info/facts.h"
#include "info/guarded_page.h"
#include "info/settings_page.h"
#include "live_command.h"
#include "recordings/behind.h"
#include "tensor_tool.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cstdio>

namespace distwrap::cli {
namespace {

constexpr OptionRow kOptions[] = {
    {"--backend", "NAME",
     "Abilities of the backend for each operation, form, element type and "
     "reduction: native, composed of others, or refused"},
    {"--errors", nullptr, "All reasons of errors, with their remedies"},
    {"--error", "WHICH",
     "The page about an error: its number, which ends its message, or its "
     "reason"},
    {"--settings", nullptr, "All variables of the environment"},
    {"--guarded", nullptr,
     "The functions of other libraries that the guard refuses, and the calls "
     "that replace them"},
    {"--ops", nullptr,
     "The operators of tensors: schemas, element types, devices with kernels"},
    {"--library", "PATH",
     "With --ops: the operators of this library, by path or by name"},
    {"--recorder", "DIR",
     "The last calls of a job's ranks, and which rank is behind which, from "
     "the recordings in a folder and the folders in it; some may be missing"},
    {"--live", nullptr,
     "The present calls of your running job's ranks on this host, the ranks "
     "that others wait for, and whether they run; repeated each second on a "
     "terminal"},
    {"--job", "JOB",
     "With --live and several running jobs: a process of the job, or its id"},
    {"--once", nullptr, "With --live: print once and end"},
    {"--json", nullptr, "As JSON; with --live once"},
    {"--markdown", nullptr,
     "As Markdown; with --backend, --error, --errors, --guarded, --ops or "
     "--settings"},
};

constexpr CommandRow kInfo = {
    "info",
    "Shows build, backends, settings with their source, and the launcher that "
    "was found.",
    kOptions,
    "Forms: in place; per rank, with a count for each rank; parts, a list of "
    "buffers;\nexclusive, without the rank's own input.\n\n"
    "Examples:\n"
    "  distwrap info\n"
    "  distwrap info --backend gloo\n"
    "  distwrap info --error DW-0062\n"
    "  distwrap info --errors --json\n"
    "  distwrap info --recorder /tmp/distwrap.1000/recording-0f3a\n"
    "  distwrap info --live --job 4711\n\n"
    "Exit code: 0; 1 when the backend that was asked for cannot be loaded, a "
    "folder has\nno recordings, or no such job or page exists; 2 for bad "
    "options."};

int complain(absl::string_view text, int code) {
  std::fprintf(stderr, "distwrap info: %s\n", std::string(text).c_str());
  return code;
}

int print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0
             ? kFailed
             : 0;
}

int show_all(const Typed& typed, const base::Environment& environment) {
  Facts facts;
  facts.build = build_facts();
  const auto registry = registry_of(environment);
  if (registry.ok())
    facts.backends = backend_facts(**registry);
  else
    complain(registry.status().message(), 0);
  facts.settings = setting_facts(environment);
  facts.unknown = environment.unknown_settings();
  facts.launch = launch_facts(environment);
  return print(typed.has("--json") ? bench::json_text(to_json(facts))
                                   : to_text(facts));
}

int show_backend(const std::string& name, const Typed& typed,
                 const base::Environment& environment) {
  const auto registry = registry_of(environment);
  if (!registry.ok()) return complain(registry.status().message(), kFailed);
  const absl::StatusOr<plugin::BackendPtr> backend = (*registry)->find(name);
  if (!backend.ok()) return complain(backend.status().message(), kFailed);
  const auto promises = backend_promises(**backend);
  if (!promises.ok()) return complain(promises.status().message(), kFailed);
  const int32_t device = device_type_of(**backend);
  const CapabilityTable table =
      capability_table((*backend)->name(), promises->rows, device,
                       promises->moves_rows, promises->adds_rows);
  if (typed.has("--markdown")) return print(to_markdown(table));
  JsonArray notes(promises->notes.begin(), promises->notes.end());
  if (typed.has("--json"))
    return print(bench::json_text(
        JsonObject{{"schema", 1},
                   {"tool", "distwrap info"},
                   {"backend", JsonObject{{"name", (*backend)->name()},
                                          {"version", (*backend)->version()},
                                          {"origin", (*backend)->origin()},
                                          {"notes", std::move(notes)}}},
                   {"capabilities", to_json(table)}}));
  return print(absl::StrCat(
      table.backend, " ", (*backend)->version(), ", ", (*backend)->origin(),
      ", ",
      device == DW_DEVICE_CPU
          ? "host memory"
          : absl::StrCat("memory of device type ", device_type_name(device)),
      "\n", absl::StrJoin(promises->notes, "\n"),
      promises->notes.empty() ? "" : "\n", to_text(table)));
}

int show_recordings(const std::string& folder, const Typed& typed) {
  const absl::StatusOr<JobRecording> job = read_recordings(folder);
  if (!job.ok()) return complain(job.status().message(), kFailed);
  const std::vector<GroupPosition> groups = positions_of(*job);
  return print(typed.has("--json") ? bench::json_text(to_json(*job, groups))
                                   : to_text(*job, groups));
}

int show_error(const std::string& word, const Typed& typed) {
  const ErrorPage* const page = find_error_page(word);
  if (page == nullptr) {
    std::vector<std::string> names;
    for (const ErrorPage& one : error_pages()) names.push_back(one.reason);
    return complain(
        absl::StrCat("no error is called '", word, "'; the nearest is ",
                     base::nearest(word, names), ", and --errors shows all"),
        kFailed);
  }
  if (typed.has("--json"))
    return print(bench::json_text(JsonObject{
        {"schema", 1}, {"tool", "distwrap info"}, {"error", to_json(*page)}}));
  return print(typed.has("--markdown") ? to_markdown(*page) : to_text(*page));
}

int show_operators(const Typed& typed) {
  Words arguments = {"ops"};
  for (const char* option : {"--json", "--markdown"}) {
    if (typed.has(option)) arguments.emplace_back(option);
  }
  if (const auto library = typed.value("--library")) {
    arguments.push_back(*library);
  }
  return run_tensor_tool("distwrap info", arguments);
}

// Prints one of the tables of this version.
int show_table(const Typed& typed, const char* name, const JsonArray& json,
               const std::string& markdown, const std::string& text) {
  if (typed.has("--json"))
    return print(bench::json_text(
        JsonObject{{"schema", 1}, {"tool", "distwrap info"}, {name, json}}));
  return print(typed.has("--markdown") ? markdown : text);
}

}  // namespace

CommandText info_text() { return text_of(kInfo); }

int info_command(const Words& words) {
  Typed typed;
  if (const auto code = parse(kInfo, words, &typed)) return *code;
  const std::optional<std::string> backend = typed.value("--backend");
  const std::optional<std::string> recorder = typed.value("--recorder");
  const std::optional<std::string> error = typed.value("--error");
  const bool errors = typed.has("--errors"), settings = typed.has("--settings");
  const bool guarded = typed.has("--guarded"), live = typed.has("--live");
  const bool ops = typed.has("--ops");
  if (backend.has_value() + recorder.has_value() + error.has_value() + errors +
          settings + guarded + live + ops >
      1)
    return complain(
        "give one of --backend, --error, --errors, --guarded, --ops, "
        "--settings, --recorder and --live",
        kUsage);
  if (!live && (typed.has("--job") || typed.has("--once")))
    return complain("--job and --once go with --live", kUsage);
  if (!ops && typed.has("--library"))
    return complain("--library goes with --ops", kUsage);
  if (typed.has("--json") && typed.has("--markdown"))
    return complain("give one of --json and --markdown", kUsage);

  if (ops) return show_operators(typed);
  if (live && !typed.has("--markdown"))
    return live_command({.job = typed.value("--job").value_or(""),
                         .json = typed.has("--json"),
                         .once = typed.has("--once")});
  if (recorder.has_value() && !typed.has("--markdown"))
    return show_recordings(*recorder, typed);
  if (error.has_value()) return show_error(*error, typed);
  if (errors)
    return show_table(typed, "errors", error_index_json(),
                      error_index_markdown(), error_index_text());
  if (guarded)
    return show_table(typed, "guarded", guarded_json(), guarded_markdown(),
                      guarded_text());
  if (settings)
    return show_table(typed, "settings", settings_json(), settings_markdown(),
                      settings_text());
  const base::Environment environment = base::Environment::of_process();
  if (backend.has_value()) return show_backend(*backend, typed, environment);
  if (typed.has("--markdown"))
    return complain(
        "--markdown goes with --backend, --error, --errors, --guarded, --ops "
        "or "
        "--settings",
        kUsage);
  return show_all(typed, environment);
}

}  // namespace distwrap::cli
