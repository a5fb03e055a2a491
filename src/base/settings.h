// The settings table and the environment that fills it.
//
// Only start-up reads an environment, through this; the core gets values.
// Threads: values.
#ifndef DISTWRAP_SRC_BASE_SETTINGS_H_
#define DISTWRAP_SRC_BASE_SETTINGS_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <map>
#include <optional>
#include <string>

namespace distwrap::base {

enum class Setting {
#define DW_SETTING(name, enumerator, fallback, summary) enumerator,
#include "base/settings.def"
};

// "DISTWRAP_RANK".
absl::string_view setting_name(Setting setting);

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
  // The table's default when unset.
  std::string get_or_default(Setting setting) const;
  // kInvalidArgument with name and value unless it is a number in range.
  absl::StatusOr<std::optional<int>> get_int(absl::string_view name, int least,
                                             int most) const;
  // Seconds, fractions allowed, more than 0.
  absl::StatusOr<absl::Duration> get_seconds(Setting setting) const;

 private:
  Variables variables_;
};

// Version of this library, "0.1.0".
absl::string_view library_version();

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_SETTINGS_H_
