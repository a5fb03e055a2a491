// The table of settings, and the environment that sets them.
//
// Only start-up code reads an environment, through this file; the core gets
// values.
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

// One row of the table of settings.
struct SettingInfo {
  Setting setting;
  absl::string_view name;  // "DISTWRAP_RANK"
  SettingType type;
  absl::string_view fallback;
  absl::string_view choices;  // the choices of a CHOICE, separated by blanks
  absl::string_view summary;
};
// All settings in the order of the table.
absl::Span<const SettingInfo> all_settings();

// The variable's name: "DISTWRAP_RANK".
absl::string_view setting_name(Setting setting);

// The legal values of a setting as text: "seconds, more than 0".
std::string expected_value(const SettingInfo& setting);

// An environment: that of the process, or one that a test or a record has made.
class Environment {
 public:
  using Variables = std::map<std::string, std::string>;
  explicit Environment(Variables variables)
      : variables_(std::move(variables)) {}
  // A copy of the process's environment; empty under elevated privileges. It
  // has kConcealed in place of the job's key.
  static Environment of_process();
  static constexpr char kConcealed[] = "(secret)";

  // The value of a variable; nullopt when it is unset or empty.
  std::optional<std::string> get(absl::string_view name) const;
  std::optional<std::string> get(Setting setting) const {
    return get(setting_name(setting));
  }
  // A copy of this environment in which the variable has this value.
  Environment with(absl::string_view name, absl::string_view value) const {
    Variables variables = variables_;
    variables[std::string(name)] = std::string(value);
    return Environment(std::move(variables));
  }
  // The value of a setting, or the table's default when it is unset.
  std::string get_or_default(Setting setting) const;
  // An integer; kInvalidArgument with name and value unless it is in range.
  absl::StatusOr<std::optional<int>> get_int(absl::string_view name, int least,
                                             int most) const;
  // A positive number of seconds, fractions allowed. For a PATIENCE, 0 means
  // InfiniteDuration.
  absl::StatusOr<absl::Duration> get_seconds(Setting setting) const;
  // A flag in upper or lower case; kInvalidArgument with name and value for
  // other texts.
  absl::StatusOr<std::optional<bool>> get_flag(absl::string_view name) const;

  // OK when the setting is unset or its value fits its type; otherwise
  // kInvalidArgument with name and value.
  absl::Status check(Setting setting) const;

  struct Unknown {
    std::string name, nearest;
  };
  // The variables with the prefix DISTWRAP_ that are no settings, sorted.
  std::vector<Unknown> unknown_settings() const;

 private:
  Variables variables_;
};

// Logs each unknown setting as a warning, once in a process.
void warn_of_unknown_settings(const Environment& environment);

// The version of this library: "0.1.0".
absl::string_view library_version();

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_SETTINGS_H_
