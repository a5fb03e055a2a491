#include "quiet.h"

#include "library.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

namespace ucx_backend {
namespace {

// The host of the calling thread; NULL outside of this backend's calls.
thread_local const dw_host_api* listener = nullptr;

__attribute__((format(printf, 6, 0))) ucs_log_func_rc_t hear(
    const char* /*file*/, unsigned /*line*/, const char* /*function*/,
    ucs_log_level_t /*level*/, const ucs_log_component_config_t* /*component*/,
    const char* format, va_list arguments) {
  if (listener == nullptr) return UCS_LOG_FUNC_RC_CONTINUE;
  char text[400] = "ucx: ";
  const size_t begin = std::strlen(text);
  std::vsnprintf(text + begin, sizeof text - begin, format, arguments);
  if (char* const end = std::strchr(text, '\n')) *end = '\0';
  listener->log(listener->self, DW_LOG_DEBUG, {text, std::strlen(text)});
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

// UCX keeps the handler for ever, so it is given once.
void take_log(const Library& library) {
  static std::mutex mutex;
  static std::vector<decltype(library.ucs_log_push_handler)> taken;
  if (library.ucs_log_push_handler == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex);
  for (const auto function : taken)
    if (function == library.ucs_log_push_handler) return;
  taken.push_back(library.ucs_log_push_handler);
  library.ucs_log_push_handler(hear);
}

LogTo::LogTo(const dw_host_api* host) : before_(listener) { listener = host; }
LogTo::~LogTo() { listener = before_; }

SignalHandlersKept::SignalHandlersKept() {
  for (int i = 1; i < kSignals; ++i)
    if (sigaction(i, nullptr, &before_[i]) != 0) before_[i] = {};
}

SignalHandlersKept::~SignalHandlersKept() {
  for (int i = 1; i < kSignals; ++i) {
    struct sigaction now;
    if (sigaction(i, nullptr, &now) == 0 &&
        (now.sa_handler != before_[i].sa_handler ||
         now.sa_sigaction != before_[i].sa_sigaction))
      sigaction(i, &before_[i], nullptr);
  }
}

}  // namespace ucx_backend
