// The settings table and the environment that fills it.
//
// Only start-up reads an environment, through this; the core gets values.
// Threads: values.
#ifndef DISTWRAP_SRC_BASE_SETTINGS_H_
#define DISTWRAP_SRC_BASE_SETTINGS_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::base {

enum class Setting {
#define DW_SETTING(name, enumerator, type, fallback, choices, summary) \
  enumerator,
#include "base/settings.def"
};

enum class SettingType {
  COUNT,
  SECONDS,
  PATIENCE,
  CHOICE,
  TEXT,
  PATH,
  PATHS,
  FLAG
};

// One row of the table.
struct SettingInfo {
  Setting setting;
  absl::string_view name;  // "DISTWRAP_RANK"
  SettingType type;
  absl::string_view fallback;
  absl::string_view choices;  // of a CHOICE, separated by blanks
  absl::string_view summary;
};
// In the order of the table.
absl::Span<const SettingInfo> all_settings();

// "DISTWRAP_RANK".
absl::string_view setting_name(Setting setting);

// What a value may be, for people: "seconds, more than 0".
std::string expected_value(const SettingInfo& setting);

// An environment: the process's, or one that a test or a record made.
class Environment {
 public:
  using Variables = std::map<std::string, std::string>;
  explicit Environment(Variables variables)
      : variables_(std::move(variables)) {}
  // A copy of the process's; empty under elevated privileges.
  static Environment of_process();

  // Nothing when it is unset or empty.
  std::optional<std::string> get(absl::string_view name) const;
  std::optional<std::string> get(Setting setting) const {
    return get(setting_name(setting));
  }
  // The same with one variable more, or another value of it.
  Environment with(absl::string_view name, absl::string_view value) const {
    Variables variables = variables_;
    variables[std::string(name)] = std::string(value);
    return Environment(std::move(variables));
  }
  // The table's default when unset.
  std::string get_or_default(Setting setting) const;
  // kInvalidArgument with name and value unless it is a number in range.
  absl::StatusOr<std::optional<int>> get_int(absl::string_view name, int least,
                                             int most) const;
  // Seconds, fractions allowed, more than 0; of a PATIENCE, InfiniteDuration
  // for 0.
  absl::StatusOr<absl::Duration> get_seconds(Setting setting) const;
  // Any case; kInvalidArgument with name and value for what is neither.
  absl::StatusOr<std::optional<bool>> get_flag(absl::string_view name) const;

  // Whether the value, if there is one, is of the setting's type; otherwise
  // kInvalidArgument with name and value.
  absl::Status check(Setting setting) const;

  struct Unknown {
    std::string name, nearest;
  };
  // Variables with our prefix that are no settings, sorted.
  std::vector<Unknown> unknown_settings() const;

 private:
  Variables variables_;
};

// Logs each unknown setting as a warning, for the first call of the process.
void warn_of_unknown_settings(const Environment& environment);

// Version of this library, "0.1.0".
absl::string_view library_version();

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_SETTINGS_H_
