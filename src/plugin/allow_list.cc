#include "plugin/allow_list.h"

#include "base/error.h"
#include "base/read_file.h"
#include "base/secrets.h"
#include "plugin/refusal.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <errno.h>
#include <fstream>
#include <optional>

namespace distwrap::plugin {
namespace {

constexpr size_t kDigits = 64;

absl::Status bad_list(std::string what, absl::string_view actual) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = "init",
                           .expected = "lines as sha256sum prints them",
                           .actual = absl::StrCat("'", actual, "'"),
                           .next_step = "correct or unset "
                                        "DISTWRAP_PLUGIN_ALLOW"});
}

bool is_hash(absl::string_view text) {
  return text.size() == kDigits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

}  // namespace

absl::StatusOr<AllowList> AllowList::parse(absl::string_view text) {
  AllowList list;
  list.restricts_ = true;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const absl::string_view hash = line.substr(0, line.find_first_of(" \t"));
    if (!is_hash(hash))
      return bad_list(
          absl::StrCat("line ", number, " of the allow-list is no hash"),
          line.substr(0, kDigits));
    list.hashes_.insert(absl::AsciiStrToLower(hash));
  }
  return list;
}

absl::StatusOr<AllowList> AllowList::read(const std::string& path) {
  if (path.empty() || path.front() != '/')
    return bad_list("the path of the allow-list is not absolute", path);
  const std::optional<std::string> text = base::read_file(path);
  if (!text.has_value())
    return bad_list(absl::StrCat("the allow-list cannot be read: ",
                                 base::errno_text(errno)),
                    path);
  return parse(*text);
}

absl::StatusOr<std::string> sha256_of_file(const std::string& path) {
  const auto unreadable = [&](absl::string_view cause) {
    return refuse(Refusal::kUnreadable, path, {.cause = std::string(cause)});
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) return unreadable(base::errno_text(errno));
  if (absl::Status status = base::check_secrets(); !status.ok()) return status;
  std::optional<std::string> digits = base::sha256_of(file);
  if (!digits.has_value()) return unreadable("OpenSSL has no SHA-256");
  if (!file.eof()) return unreadable(base::errno_text(errno));
  return *std::move(digits);
}

}  // namespace distwrap::plugin
