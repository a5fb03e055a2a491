#include "base/one_library.h"

#include "base/error.h"
#include "base/settings.h"
#include "sdk/loaded_file.h"

#include <absl/strings/str_cat.h>

#include <dlfcn.h>
#include <link.h>
#include <string>
#include <vector>

namespace distwrap::base {
namespace {

int note_name(dl_phdr_info* info, size_t /*size*/, void* names) {
  if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0')
    static_cast<std::vector<std::string>*>(names)->emplace_back(
        info->dlpi_name);
  return 0;
}

}  // namespace

absl::Status check_one_library() {
  std::vector<std::string> names;
  dl_iterate_phdr(note_name, &names);
  const std::string own =
      dw_sdk::file_of(reinterpret_cast<void*>(&check_one_library));
  for (const std::string& name : names) {
    if (name.find("distwrap") == std::string::npos) continue;
    void* const handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* const symbol = dlsym(handle, "distwrap_version");
    dlclose(handle);
    // A search also finds the names of the libraries that a file depends on.
    if (symbol == nullptr || dw_sdk::file_of(symbol) == own) continue;
    const char* const version = reinterpret_cast<const char* (*)()>(symbol)();
    if (version == library_version()) continue;
    return make_error(
        {.reason = Reason::kUnsupported,
         .what = "two versions of distwrap are loaded in this process",
         .op = "init",
         .expected = absl::StrCat(library_version(), " from ", own),
         .actual = absl::StrCat(version, " from ", dw_sdk::file_of(symbol)),
         .next_step = "let all parts of the program use one of the two files"});
  }
  return absl::OkStatus();
}

}  // namespace distwrap::base
