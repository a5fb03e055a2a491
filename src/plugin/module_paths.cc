#include "plugin/module_paths.h"

#include "base/log.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <stdlib.h>
#include <unistd.h>

namespace distwrap::plugin {
namespace {

// The real path of the library or program that contains this function.
std::string own_file() {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&own_file), &info,
              reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return {};
  // For the program itself l_name is empty, and argv[0] is not reliable.
  const char* name =
      map == nullptr || map->l_name[0] == '\0' ? "/proc/self/exe" : map->l_name;
  const std::unique_ptr<char, decltype(&free)> real(realpath(name, nullptr),
                                                    &free);
  return real == nullptr ? std::string() : std::string(real.get());
}

std::string folder_of(absl::string_view path) {
  return std::string(path.substr(0, path.rfind('/')));
}

std::string find_prefix() {
  const std::string file = own_file();
  if (file.empty()) return {};
  absl::string_view folder = file;
  folder = folder.substr(0, folder.rfind('/'));
  // The library folder may have two levels, such as lib/x86_64-linux-gnu.
  if (absl::ConsumeSuffix(&folder, "/" DISTWRAP_LIBDIR))
    return std::string(folder);
  return folder_of(folder);
}

}  // namespace

const std::string& install_prefix() {
  static const std::string* const kPrefix = new std::string(find_prefix());
  return *kPrefix;
}

std::string guard_path() {
  constexpr const char* kFile = "/distwrap/libdistwrap_guard.so";
  for (const char* const folder : {DISTWRAP_LIBDIR, "lib"}) {
    const std::string path = absl::StrCat(install_prefix(), "/", folder, kFile);
    if (!install_prefix().empty() && access(path.c_str(), R_OK) == 0)
      return path;
  }
  return {};
}

std::vector<std::string> plugin_folders(const base::Environment& environment) {
  std::vector<std::string> folders;
  if (!install_prefix().empty()) {
    const std::string here =
        absl::StrCat(install_prefix(), "/" DISTWRAP_LIBDIR "/distwrap/plugins");
    // The build tree always names its library folder lib.
    const std::string plain =
        absl::StrCat(install_prefix(), "/lib/distwrap/plugins");
    folders.push_back(access(here.c_str(), F_OK) != 0 &&
                              access(plain.c_str(), F_OK) == 0
                          ? plain
                          : here);
  }
  const std::string path =
      environment.get_or_default(base::Setting::kPluginPath);
  for (absl::string_view entry : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    if (absl::StartsWith(entry, "/"))
      folders.emplace_back(entry);
    else
      base::log(base::LogLevel::kWarning,
                absl::StrCat("DISTWRAP_PLUGIN_PATH: left out '", entry,
                             "', which is not an absolute path"));
  }
  return folders;
}

std::string probe_path() {
  if (install_prefix().empty()) return {};
  return absl::StrCat(install_prefix(), "/libexec/distwrap/plugin_probe");
}

}  // namespace distwrap::plugin
