#include "plugin/registry.h"

#include "base/error.h"
#include "plugin/refusal.h"
#include "plugin/trust.h"

#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <dirent.h>
#include <memory>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace distwrap::plugin {
namespace {

constexpr char kLinkedIn[] = "linked in";

// The names of the plugins in a folder; empty when it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()),
                                                      &closedir);
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory.get())) {
    absl::string_view name = entry->d_name;
    if (absl::ConsumePrefix(&name, "libdistwrap_") &&
        absl::ConsumeSuffix(&name, ".so") && is_backend_name(name))
      names.emplace_back(name);
  }
  return names;
}

std::string file_in(absl::string_view folder, absl::string_view name) {
  return absl::StrCat(absl::StripSuffix(folder, "/"), "/libdistwrap_", name,
                      ".so");
}

bool is_absolute(absl::string_view path) { return absl::StartsWith(path, "/"); }

}  // namespace

Registry::Registry(std::vector<std::string> folders,
                   absl::Span<const LinkedIn> linked, ProbeOptions probe,
                   AllowList allowed)
    : folders_(std::move(folders)),
      linked_(linked),
      probe_(std::move(probe)),
      allowed_(std::move(allowed)) {}

absl::StatusOr<BackendPtr> Registry::find(absl::string_view name_or_path) {
  base::MutexLock lock(mutex_);
  if (name_or_path.empty())
    return base::make_error({.reason = Reason::kBackendMissing,
                             .what = "the name of the backend is empty",
                             .next_step = "name one, for example 'loopback'"});
  return name_or_path.find('/') == absl::string_view::npos
             ? find_name(name_or_path)
             : find_path(name_or_path);
}

absl::StatusOr<BackendPtr> Registry::find_name(absl::string_view name) {
  if (!is_backend_name(name)) return unknown(name);
  const auto known = by_name_.find(std::string(name));
  if (known != by_name_.end()) return known->second;
  absl::StatusOr<BackendPtr> backend = BackendPtr();
  const auto row =
      std::find_if(linked_.begin(), linked_.end(),
                   [&](const LinkedIn& r) { return r.name == name; });
  if (row != linked_.end()) {
    backend = query_backend(row->query, kLinkedIn);
  } else {
    const absl::StatusOr<std::string> file = find_file(name);
    if (!file.ok()) return file.status();
    if (file->empty()) return unknown(name);
    backend = load_plugin(*file, probe_, allowed_);
  }
  if (!backend.ok()) return backend;
  if ((*backend)->name() != name)
    return refuse(Refusal::kNameMismatch, (*backend)->origin(),
                  {.expected = absl::StrCat("'", name, "'"),
                   .actual = absl::StrCat("'", (*backend)->name(), "'")});
  by_name_.emplace(name, *backend);
  return backend;
}

absl::StatusOr<BackendPtr> Registry::find_path(absl::string_view path) {
  // The checks come first at every call: another file may lie at the path by
  // now.
  const absl::StatusOr<std::string> real = trusted_path(path);
  if (!real.ok()) return real.status();
  const auto known = by_path_.find(*real);
  if (known != by_path_.end()) return known->second;
  absl::StatusOr<BackendPtr> backend = load_plugin(*real, probe_, allowed_);
  if (backend.ok()) by_path_.emplace(*real, *backend);
  return backend;
}

// The only file of this name; empty when there is none.
absl::StatusOr<std::string> Registry::find_file(absl::string_view name) const {
  std::string found, found_real;
  for (const std::string& folder : folders_) {
    if (!is_absolute(folder)) continue;
    const std::string file = file_in(folder, name);
    if (access(file.c_str(), F_OK) != 0) continue;
    // A folder that is listed twice, or a link, is no second plugin.
    const std::unique_ptr<char, decltype(&free)> resolved(
        realpath(file.c_str(), nullptr), &free);
    const std::string real = resolved == nullptr ? file : resolved.get();
    if (found.empty()) {
      found = file;
      found_real = real;
    } else if (real != found_real) {
      return refuse(Refusal::kDuplicateName, absl::StrCat("'", name, "'"),
                    {.about = absl::StrCat(found, " and ", file)});
    }
  }
  return found;
}

std::string Registry::places() const {
  std::vector<std::string> places = {"the linked-in backends"};
  for (const std::string& folder : folders_)
    places.push_back(is_absolute(folder)
                         ? folder
                         : absl::StrCat(folder, " (left out, not absolute)"));
  return absl::StrJoin(places, ", ");
}

absl::Status Registry::unknown(absl::string_view name) const {
  std::vector<std::string> known;
  for (const Entry& entry : list_locked()) known.push_back(entry.name);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return base::make_error(
      {.reason = Reason::kBackendUnknown,
       .what = absl::StrCat("'", absl::CHexEscape(name.substr(0, 128)),
                            "'; looked in ", places()),
       .expected = known.empty()
                       ? std::string("nothing: no backend is there")
                       : absl::StrCat("one of ", absl::StrJoin(known, ", ")),
       .next_step = "name one that exists, give the full path of a plugin, or "
                    "add its folder to DISTWRAP_PLUGIN_PATH"});
}

std::vector<Registry::Entry> Registry::list() const {
  base::MutexLock lock(mutex_);
  return list_locked();
}

std::vector<Registry::Entry> Registry::list_locked() const {
  std::vector<Entry> entries;
  for (const LinkedIn& row : linked_)
    entries.push_back({row.name, kLinkedIn, by_name_.count(row.name) != 0});
  for (const std::string& folder : folders_) {
    if (!is_absolute(folder)) continue;
    for (const std::string& name : names_in(folder)) {
      const std::string file = file_in(folder, name);
      const auto known = by_name_.find(name);
      entries.push_back(
          {name, file,
           known != by_name_.end() && known->second->origin() != kLinkedIn});
    }
  }
  for (const auto& [path, backend] : by_path_)
    entries.push_back({backend->name(), path, true});
  // Loaded backends come first, so that the file of a loaded backend is
  // recognised as a duplicate.
  std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    return std::tie(a.name, a.origin, b.loaded) <
           std::tie(b.name, b.origin, a.loaded);
  });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Entry& a, const Entry& b) {
                              return a.name == b.name && a.origin == b.origin;
                            }),
                entries.end());
  return entries;
}

}  // namespace distwrap::plugin
