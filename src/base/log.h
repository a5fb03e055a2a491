// Log lines for people, on stderr.
//
// The function that first knows a cause logs it once, in lower case. Success is
// logged at kInfo at most. Errors that a caller gets as a Status are not
// logged.
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_LOG_H_
#define DISTWRAP_SRC_BASE_LOG_H_

#include <absl/strings/string_view.h>

#include <functional>

namespace distwrap::base {

enum class LogLevel { kError = 1, kWarning, kInfo, kDebug };

// Lines above the level are dropped. The level at start is kWarning.
void set_log_level(LogLevel level);
LogLevel log_level();

// Accepts "error", "warning", "info" and "debug"; for other names it returns
// false and changes nothing.
bool set_log_level(absl::string_view name);

void log(LogLevel level, absl::string_view text);

// The destination of lines instead of stderr, for tests. An empty function
// restores stderr.
using LogSink = std::function<void(LogLevel, absl::string_view)>;
void set_log_sink(LogSink sink);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_LOG_H_
