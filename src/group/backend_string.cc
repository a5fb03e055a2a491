#include "group/backend_string.h"

#include "base/error.h"
#include "group/device_name.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <dlfcn.h>
#include <set>
#include <utility>

namespace distwrap::group {
namespace {

constexpr size_t kMaxShown = 128;

constexpr absl::string_view kAuto = "auto";
// The largest group for which "auto" chooses shared memory.
constexpr int kMostOfShm = 128;

struct Row {
  absl::string_view name, backend, device;
};
constexpr Row kRows[] = {
#define DW_BACKEND_NAME(name, backend, device) {name, backend, device},
#include "group/backend_name.def"
};

const Row* row_of(absl::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

bool is_path(absl::string_view name) { return absl::StrContains(name, '/'); }
bool is_joined(absl::string_view name) { return absl::StrContains(name, '+'); }

std::string shown(absl::string_view text) {
  return absl::CHexEscape(text.substr(0, kMaxShown));
}

absl::Status bad_format(absl::string_view part, absl::string_view why) {
  return base::make_error(
      {.reason = Reason::kBackendFormat,
       .what =
           absl::StrCat("Invalid backend format: '", shown(part), "', ", why),
       .expected = "'name', or 'device:name' with commas between",
       .next_step = "write it like 'gloo' or 'cpu:gloo,cuda:nccl'"});
}

std::string known_names(const plugin::Registry& registry) {
  std::set<std::string> names;
  for (const Row& row : kRows) names.emplace(row.name);
  for (const plugin::Registry::Entry& entry : registry.list())
    names.insert(entry.name);
  return absl::StrJoin(names, ", ");
}

absl::Status check_plain(absl::string_view name,
                         const plugin::Registry& registry) {
  if (row_of(name) != nullptr || is_path(name)) return absl::OkStatus();
  for (const plugin::Registry::Entry& entry : registry.list())
    if (entry.name == name) return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kBackendUnknown,
       .what = absl::StrCat("Unknown backend: '", shown(name),
                            "'. Known backends are: ", known_names(registry)),
       .cause = absl::StrCat("looked in ", registry.places()),
       .next_step = "name one of them, give the full path of a plugin, or add "
                    "its folder to DISTWRAP_PLUGIN_PATH"});
}

absl::Status check_name(absl::string_view name,
                        const plugin::Registry& registry) {
  if (!is_joined(name) || is_path(name)) return check_plain(name, registry);
  const std::pair<absl::string_view, absl::string_view> both =
      absl::StrSplit(name, absl::MaxSplits('+', 1));
  for (const absl::string_view plain : {both.first, both.second}) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(plain);
    if (stripped.empty() || is_joined(stripped))
      return bad_format(name, "two names stand around a '+'");
    if (absl::Status status = check_plain(stripped, registry); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

// Whether this machine has the driver of CUDA devices. A look at it is much
// cheaper than loading a plugin on trial.
bool has_cuda_driver() {
  static const bool kHas =
      dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  return kHas;
}

std::string backend_of(absl::string_view name) {
  const Row* const row = row_of(name);
  return std::string(row == nullptr ? name : row->backend);
}

BackendChoice choice_of(absl::string_view device, absl::string_view name) {
  return {std::string(device), *device_of_name(device), std::string(name),
          backend_of(name)};
}

// Parses a name without a device.
absl::StatusOr<std::vector<BackendChoice>> parse_plain(
    absl::string_view name, plugin::Registry& registry) {
  if (absl::Status status = check_name(name, registry); !status.ok())
    return status;
  if (const Row* const row = row_of(name)) {
    std::vector<BackendChoice> choices = {choice_of(row->device, name)};
    if (name == kAuto && has_cuda_driver() && registry.find("nccl").ok())
      choices.push_back(choice_of("cuda", kAuto));
    return choices;
  }
  if (is_joined(name) && !is_path(name))
    return std::vector<BackendChoice>{choice_of("cpu", name)};
  const absl::StatusOr<plugin::BackendPtr> table = registry.find(name);
  if (!table.ok()) return table.status();
  std::vector<BackendChoice> choices;
  for (int32_t type = 0; type < 32; ++type)
    if (((*table)->api().devices & DW_BIT(type)) != 0 &&
        device_of_name(device_name(type)).has_value())
      choices.push_back(choice_of(device_name(type), name));
  if (choices.empty())
    return base::make_error(
        {.reason = Reason::kNoCommunicator,
         .what = absl::StrCat("backend ", shown(name),
                              " serves no device type that is known here"),
         .expected = known_devices(),
         .next_step = "choose another backend"});
  return choices;
}

absl::StatusOr<BackendChoice> parse_pair(absl::string_view part,
                                         const plugin::Registry& registry) {
  const auto colons = std::count(part.begin(), part.end(), ':');
  if (colons != 1)
    return bad_format(part, absl::StrCat("got ", colons, " colons"));
  const std::pair<absl::string_view, absl::string_view> both =
      absl::StrSplit(part, ':');
  const absl::string_view device = absl::StripAsciiWhitespace(both.first);
  const absl::string_view name = absl::StripAsciiWhitespace(both.second);
  if (device.empty() || name.empty())
    return bad_format(part, "got 1 colons and nothing beside it");
  if (!device_of_name(device).has_value())
    return base::make_error(
        {.reason = Reason::kDeviceUnknown,
         .what = absl::StrCat("Unknown device type: '", shown(device), "'"),
         .expected = known_devices(),
         .next_step = "name one of these before the colon"});
  if (absl::Status status = check_name(name, registry); !status.ok())
    return status;
  return choice_of(device, name);
}

absl::StatusOr<plugin::BackendPtr> load(const BackendChoice& choice,
                                        plugin::Registry& registry) {
  if (is_joined(choice.backend) && !is_path(choice.backend))
    return base::make_error(
        {.reason = Reason::kUnsupported,
         .what = absl::StrCat("'", choice.backend,
                              "': backends cannot be joined yet, one inside a "
                              "host and one between hosts"),
         .next_step = "name one backend, such as gloo"});
  absl::StatusOr<plugin::BackendPtr> table = registry.find(choice.backend);
  if (table.ok() || row_of(choice.backend) == nullptr ||
      error_reason(table.status()) != Reason::kBackendUnknown)
    return table;
  return base::amend_error(table.status(), [&](ErrorInfo& info) {
    info.reason = Reason::kPluginNotFound;
    info.what = absl::StrCat("backend '", choice.spelled,
                             "' is not installed: ", info.what);
  });
}

}  // namespace

absl::StatusOr<std::vector<BackendChoice>> parse_backends(
    absl::string_view text, plugin::Registry& registry) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty())
    return base::make_error({.reason = Reason::kBackendMissing,
                             .what = "backend must be specified",
                             .next_step = "name one, such as gloo"});
  if (absl::StartsWith(text, "/") ||
      text.find_first_of(":,") == absl::string_view::npos)
    return parse_plain(text, registry);
  std::vector<BackendChoice> choices;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    absl::StatusOr<BackendChoice> choice =
        parse_pair(absl::StripAsciiWhitespace(part), registry);
    if (!choice.ok()) return choice.status();
    for (const BackendChoice& before : choices)
      if (before.device_type == choice->device_type)
        return base::make_error(
            {.reason = Reason::kDeviceDuplicate,
             .what = absl::StrCat("Duplicate device type '", choice->device,
                                  "' in '", shown(text), "'"),
             .next_step = "name one backend for each device"});
    choices.push_back(*std::move(choice));
  }
  return choices;
}

bool has_auto(const std::vector<BackendChoice>& choices) {
  return std::any_of(
      choices.begin(), choices.end(), [](const BackendChoice& choice) {
        return choice.backend == kAuto && choice.device_type == kCpu.type;
      });
}

void resolve_auto(std::vector<BackendChoice>* choices, int size, bool one_host,
                  const plugin::Registry& registry, absl::string_view between) {
  const auto has = [&](absl::string_view name) {
    const std::vector<plugin::Registry::Entry> all = registry.list();
    return std::any_of(all.begin(), all.end(),
                       [&](const auto& entry) { return entry.name == name; });
  };
  for (BackendChoice& choice : *choices) {
    if (choice.backend != kAuto) continue;
    if (choice.device_type != kCpu.type)
      choice.backend = "nccl";
    else if (size == 1)
      choice.backend = "loopback";
    else if (one_host)
      choice.backend = size <= kMostOfShm && has("shm") ? "shm" : "gloo";
    else
      choice.backend = std::string(between);
  }
}

absl::Status check_reach(const std::vector<BackendChoice>& choices,
                         bool one_host, bool clear_data,
                         plugin::Registry& registry) {
  if (one_host) return absl::OkStatus();
  for (const BackendChoice& choice : choices) {
    if (choice.backend == "shm")
      return base::make_error(
          {.reason = Reason::kUnsupported,
           .what = "backend shm moves data within one host, and the group has "
                   "ranks on several hosts",
           .expected = "gloo or ucx, which reach other hosts",
           .actual = "shm",
           .next_step = "name gloo or ucx, or auto"});
    if (clear_data) continue;
    const absl::StatusOr<plugin::BackendPtr> table = load(choice, registry);
    if (!table.ok()) return table.status();
    if (((*table)->api().flags & DW_BACKEND_PROTECTS_DATA) == 0)
      return base::make_error(
          {.reason = Reason::kUnsupported,
           .what = absl::StrCat("backend ", choice.backend,
                                " sends data to other hosts in the clear, and "
                                "DISTWRAP_CLEAR_DATA does not allow it"),
           .next_step = "name a backend that encrypts its data; on a network "
                        "that nobody else reaches, unset DISTWRAP_CLEAR_DATA "
                        "on all ranks"});
  }
  return absl::OkStatus();
}

absl::Status settle_backends(const std::vector<BackendChoice>& choices,
                             plugin::Registry& registry) {
  for (const BackendChoice& choice : choices) {
    if (choice.backend == kAuto) continue;
    const absl::StatusOr<plugin::BackendPtr> table = load(choice, registry);
    if (!table.ok()) return table.status();
    if (((*table)->api().devices & DW_BIT(choice.device_type)) == 0)
      return base::make_error(
          {.reason = Reason::kNoCommunicator,
           .what = absl::StrCat("backend ", (*table)->name(),
                                " does not serve device type '", choice.device,
                                "'"),
           .next_step = "choose a backend for this device"});
  }
  return absl::OkStatus();
}

std::vector<DeviceBackend> spelled_backends(
    const std::vector<BackendChoice>& choices) {
  std::vector<DeviceBackend> spelled;
  for (const BackendChoice& choice : choices)
    spelled.push_back({choice.device, choice.spelled});
  return spelled;
}

std::string terms_of(const std::vector<BackendChoice>& choices) {
  if (choices.size() == 1 && choices[0].device_type == kCpu.type)
    return choices[0].backend;
  return absl::StrJoin(
      choices, ",", [](std::string* out, const BackendChoice& choice) {
        absl::StrAppend(out, choice.device, ":", choice.backend);
      });
}

}  // namespace distwrap::group
