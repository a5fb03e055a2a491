#include "plugin/trust.h"

#include "base/error.h"
#include "plugin/refusal.h"

#include <absl/strings/str_cat.h>

#include <errno.h>
#include <memory>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

namespace distwrap::plugin {
namespace {

absl::Status check(const std::string& place, bool is_file,
                   absl::string_view plugin) {
  struct stat info;
  if (lstat(place.c_str(), &info) != 0)
    return refuse(Refusal::kUnreadable, plugin,
                  {.about = place, .cause = base::errno_text(errno)});
  if (is_file ? !S_ISREG(info.st_mode) : !S_ISDIR(info.st_mode))
    return refuse(Refusal::kNotAFile, plugin, {.about = place});
  if (info.st_uid != 0 && info.st_uid != geteuid())
    return refuse(Refusal::kForeignOwner, plugin,
                  {.about = place,
                   .expected = absl::StrCat("owner 0 or ", geteuid()),
                   .actual = absl::StrCat(info.st_uid)});
  // In a folder with the sticky bit only owners rename and remove files.
  if (!is_file && (info.st_mode & S_ISVTX) != 0) return absl::OkStatus();
  const bool by_group = (info.st_mode & S_IWGRP) != 0 && info.st_gid != 0 &&
                        info.st_gid != getegid();
  if (by_group || (info.st_mode & S_IWOTH) != 0)
    return refuse(
        Refusal::kWritableByOthers, plugin,
        {.about = absl::StrCat(
             place, " has mode ", absl::Hex(info.st_mode >> 6 & 7),
             absl::Hex(info.st_mode >> 3 & 7), absl::Hex(info.st_mode & 7))});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> trusted_path(absl::string_view path) {
  if (path.empty() || path[0] != '/')
    return refuse(Refusal::kRelativePath, absl::StrCat("'", path, "'"));
  if (path.find('\0') != absl::string_view::npos)
    return refuse(Refusal::kUnreadable, path.substr(0, path.find('\0')),
                  {.about = "the path contains a zero byte"});
  const std::string given(path);
  const std::unique_ptr<char, decltype(&free)> resolved(
      realpath(given.c_str(), nullptr), &free);
  if (resolved == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR)
      return base::make_error({.reason = Reason::kPluginNotFound,
                               .what = absl::StrCat("no file at ", given),
                               .cause = base::errno_text(errno),
                               .next_step = "check the path"});
    return refuse(Refusal::kUnreadable, given,
                  {.cause = base::errno_text(errno)});
  }
  const std::string real = resolved.get();
  if (absl::Status status = check("/", false, given); !status.ok())
    return status;
  // From the root down: the error names the first unsafe folder.
  for (size_t end = real.find('/', 1);; end = real.find('/', end + 1)) {
    const bool is_file = end == std::string::npos;
    if (absl::Status status = check(real.substr(0, end), is_file, given);
        !status.ok())
      return status;
    if (is_file) return real;
  }
}

}  // namespace distwrap::plugin
