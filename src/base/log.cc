#include "base/log.h"

#include "base/mutex.h"

#include <absl/strings/str_cat.h>

#include <atomic>
#include <string>
#include <unistd.h>
#include <utility>

namespace distwrap::base {
namespace {

constexpr absl::string_view kNames[] = {"", "error", "warning", "info",
                                        "debug"};

std::atomic<LogLevel> level_limit{LogLevel::kWarning};

struct Sink {
  Mutex mutex;
  LogSink function ABSL_GUARDED_BY(mutex);
};

Sink& sink() {
  static Sink* const kSink = new Sink;  // outlives static destructors
  return *kSink;
}

}  // namespace

void set_log_level(LogLevel level) { level_limit = level; }

LogLevel log_level() { return level_limit; }

bool set_log_level(absl::string_view name) {
  for (int i = 1; i < 5; ++i) {
    if (name == kNames[i]) {
      set_log_level(static_cast<LogLevel>(i));
      return true;
    }
  }
  return false;
}

void log(LogLevel level, absl::string_view text) {
  if (level > level_limit.load(std::memory_order_relaxed)) return;
  LogSink function;
  {
    MutexLock lock(sink().mutex);
    function = sink().function;
  }
  if (function) {
    function(level, text);
    return;
  }
  const std::string line =
      absl::StrCat("distwrap[", getpid(), "] ", kNames[static_cast<int>(level)],
                   ": ", text, "\n");
  // One write for the whole line, so that lines of several ranks do not mix. A
  // full or closed stderr is no error.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

void set_log_sink(LogSink function) {
  MutexLock lock(sink().mutex);
  sink().function = std::move(function);
}

}  // namespace distwrap::base
