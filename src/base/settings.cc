#include "base/settings.h"

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <atomic>
#include <sys/auxv.h>
#include <unistd.h>

namespace distwrap::base {
namespace {

constexpr absl::string_view kPrefix = "DISTWRAP_";

constexpr SettingInfo kSettings[] = {
#define DW_SETTING(name, enumerator, type, fallback, choices, summary) \
  {Setting::enumerator,                                                \
   "DISTWRAP_" #name,                                                  \
   SettingType::type,                                                  \
   fallback,                                                           \
   choices,                                                            \
   summary},
#include "base/settings.def"
};

const SettingInfo& row(Setting setting) {
  return kSettings[static_cast<int>(setting)];
}

std::vector<std::string> choices_of(const SettingInfo& setting) {
  return absl::StrSplit(setting.choices, ' ', absl::SkipEmpty());
}

bool is_seconds(const SettingInfo& setting, absl::string_view text,
                double* seconds) {
  return absl::SimpleAtod(text, seconds) &&
         (*seconds > 0 ||
          (*seconds == 0 && setting.type == SettingType::PATIENCE));
}

std::optional<bool> flag_of(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const absl::string_view yes : {"1", "true", "yes", "on"})
    if (lower == yes) return true;
  for (const absl::string_view no : {"0", "false", "no", "off"})
    if (lower == no) return false;
  return std::nullopt;
}

bool is_usable(const SettingInfo& setting, absl::string_view text) {
  int count = 0;
  double seconds = 0;
  switch (setting.type) {
    case SettingType::COUNT:
      return absl::SimpleAtoi(text, &count) && count >= 0;
    case SettingType::SECONDS:
    case SettingType::PATIENCE:
      return is_seconds(setting, text, &seconds);
    case SettingType::CHOICE: {
      const std::vector<std::string> choices = choices_of(setting);
      return std::find(choices.begin(), choices.end(), text) != choices.end();
    }
    case SettingType::TEXT:
      return true;
    case SettingType::PATH:
      return absl::StartsWith(text, "/");
    case SettingType::PATHS:
      for (const absl::string_view path :
           absl::StrSplit(text, ':', absl::SkipEmpty()))
        if (!absl::StartsWith(path, "/")) return false;
      return true;
    case SettingType::FLAG:
      return flag_of(text).has_value();
  }
  return false;
}

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

absl::Span<const SettingInfo> all_settings() { return kSettings; }

absl::string_view setting_name(Setting setting) { return row(setting).name; }

std::string expected_value(const SettingInfo& setting) {
  switch (setting.type) {
    case SettingType::COUNT:
      return "a whole number from 0 on";
    case SettingType::SECONDS:
      return "seconds, more than 0";
    case SettingType::PATIENCE:
      return "seconds, or 0 for never";
    case SettingType::CHOICE:
      return absl::StrCat("one of ", absl::StrJoin(choices_of(setting), ", "));
    case SettingType::TEXT:
      return "text";
    case SettingType::PATH:
      return "an absolute path";
    case SettingType::PATHS:
      return "absolute paths, separated by colons";
    case SettingType::FLAG:
      return "1, true, yes, on, 0, false, no or off";
  }
  return {};
}

Environment Environment::of_process() {
  Variables variables;
  if (getauxval(AT_SECURE) != 0) return Environment(std::move(variables));
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    const absl::string_view name = text.substr(0, equals);
    // A copy of the secret would stay in memory and might be printed.
    variables.emplace(name, name == setting_name(Setting::kJobKey)
                                ? kConcealed
                                : text.substr(equals + 1));
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
  if (!is_seconds(row(setting), text, &seconds))
    return bad_value(setting_name(setting), text, expected_value(row(setting)));
  return seconds == 0 ? absl::InfiniteDuration() : absl::Seconds(seconds);
}

absl::StatusOr<std::optional<bool>> Environment::get_flag(
    absl::string_view name) const {
  const std::optional<std::string> text = get(name);
  if (!text.has_value()) return std::optional<bool>();
  const std::optional<bool> flag = flag_of(*text);
  if (!flag.has_value())
    return bad_value(name, *text, "1, true, yes, on, 0, false, no or off");
  return flag;
}

absl::Status Environment::check(Setting setting) const {
  const std::optional<std::string> text = get(setting);
  const SettingInfo& info = row(setting);
  if (!text.has_value() || is_usable(info, *text)) return absl::OkStatus();
  return bad_value(info.name, *text, expected_value(info));
}

std::vector<Environment::Unknown> Environment::unknown_settings() const {
  std::vector<std::string> known;
  for (const SettingInfo& setting : kSettings) known.emplace_back(setting.name);
  std::vector<Unknown> unknown;
  for (auto entry = variables_.lower_bound(std::string(kPrefix));
       entry != variables_.end() && absl::StartsWith(entry->first, kPrefix);
       ++entry) {
    const std::string& name = entry->first;
    if (std::find(known.begin(), known.end(), name) == known.end())
      unknown.push_back({name, nearest(name, known)});
  }
  return unknown;
}

void warn_of_unknown_settings(const Environment& environment) {
  static std::atomic<bool> told{false};
  const std::vector<Environment::Unknown> unknown =
      environment.unknown_settings();
  if (unknown.empty() || told.exchange(true)) return;
  for (const Environment::Unknown& setting : unknown)
    log(LogLevel::kWarning,
        absl::StrCat(setting.name,
                     " is not a setting and has no effect; the "
                     "nearest is ",
                     setting.nearest));
}

absl::string_view library_version() { return DISTWRAP_VERSION; }

}  // namespace distwrap::base
