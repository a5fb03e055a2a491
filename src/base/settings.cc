#include "base/settings.h"

#include "base/error.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <sys/auxv.h>
#include <unistd.h>

namespace distwrap::base {
namespace {

struct Row {
  absl::string_view name, fallback;
};

constexpr Row kRows[] = {
#define DW_SETTING(name, enumerator, fallback, summary) \
  {"DISTWRAP_" #name, fallback},
#include "base/settings.def"
};

const Row& row(Setting setting) { return kRows[static_cast<int>(setting)]; }

absl::Status bad_value(absl::string_view name, absl::string_view value,
                       absl::string_view expected) {
  return make_error({.reason = Reason::kInvalidArgument,
                     .what = absl::StrCat(name, " is not usable"),
                     .op = "init",
                     .expected = std::string(expected),
                     .actual = absl::StrCat("'", value, "'"),
                     .next_step = absl::StrCat("correct or unset ", name)});
}

}  // namespace

absl::string_view setting_name(Setting setting) { return row(setting).name; }

Environment Environment::of_process() {
  Variables variables;
  if (getauxval(AT_SECURE) != 0) return Environment(std::move(variables));
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != absl::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(variables));
}

std::optional<std::string> Environment::get(absl::string_view name) const {
  const auto found = variables_.find(std::string(name));
  if (found == variables_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::string Environment::get_or_default(Setting setting) const {
  return get(setting).value_or(std::string(row(setting).fallback));
}

absl::StatusOr<std::optional<int>> Environment::get_int(absl::string_view name,
                                                        int least,
                                                        int most) const {
  const std::optional<std::string> text = get(name);
  if (!text.has_value()) return std::optional<int>();
  int value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < least || value > most)
    return bad_value(name, *text,
                     absl::StrCat("a number from ", least, " to ", most));
  return std::optional<int>(value);
}

absl::StatusOr<absl::Duration> Environment::get_seconds(Setting setting) const {
  const std::string text = get_or_default(setting);
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds > 0))
    return bad_value(setting_name(setting), text, "seconds, more than 0");
  return absl::Seconds(seconds);
}

absl::string_view library_version() { return DISTWRAP_VERSION; }

}  // namespace distwrap::base
