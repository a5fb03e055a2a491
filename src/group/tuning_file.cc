#include "group/tuning_file.h"

#include "base/error.h"
#include "base/read_file.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <errno.h>
#include <optional>
#include <set>
#include <utility>

namespace distwrap::group {
namespace {

constexpr char kHint[] = "tuning";
constexpr size_t kMostShown = 60;

absl::Status bad_file(std::string what, std::string expected,
                      std::string actual) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = "init",
                           .expected = std::move(expected),
                           .actual = std::move(actual),
                           .next_step =
                               "write one with `distwrap bench tune`, or unset "
                               "DISTWRAP_TUNING"});
}

bool is_name(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '-';
  });
}

}  // namespace

absl::StatusOr<TuningFile> TuningFile::parse(absl::string_view text,
                                             const std::string& path) {
  TuningFile file;
  file.path_ = path;
  std::set<std::string> seen;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(sides.first);
    const absl::string_view value = absl::StripAsciiWhitespace(sides.second);
    const std::pair<absl::string_view, absl::string_view> names =
        absl::StrSplit(name, absl::MaxSplits('.', 1));
    const bool is_value =
        !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
          return absl::ascii_isdigit(static_cast<unsigned char>(c));
        });
    const std::string where = absl::StrCat(path, ", line ", number);
    if (!is_name(names.first) || !is_name(names.second) || !is_value)
      return bad_file(absl::StrCat("the tuning file cannot be read: ", where),
                      "backend.name = bytes",
                      absl::StrCat("'", line.substr(0, kMostShown), "'"));
    if (!seen.insert(std::string(name)).second)
      return bad_file(absl::StrCat("the tuning file says it twice: ", where),
                      "each name once", absl::StrCat("'", name, "'"));
    std::string& hint = file.hints_[std::string(names.first)];
    absl::StrAppend(&hint, hint.empty() ? "" : ",", names.second, "=", value);
  }
  return file;
}

absl::StatusOr<TuningFile> TuningFile::read(const std::string& path) {
  const std::optional<std::string> text = base::read_file(path);
  if (!text.has_value())
    return bad_file(absl::StrCat("the tuning file cannot be read: ", path, ": ",
                                 base::errno_text(errno)),
                    "", "");
  return parse(*text, path);
}

bool TuningFile::add_hint(const plugin::BackendPtr& backend,
                          comm::Hints* hints) const {
  const auto found = hints_.find(std::string(backend->name()));
  if (found == hints_.end()) return false;
  if (comm::hints_known_to({backend}, {{kHint, ""}}).empty()) return false;
  return hints->emplace(kHint, found->second).second;
}

}  // namespace distwrap::group
