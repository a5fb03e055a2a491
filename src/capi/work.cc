// Operations that were started.
#include "base/log.h"
#include "capi/entry.h"
#include "distwrap/c.h"

#include <absl/strings/str_cat.h>

#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

#define DISTWRAP_SAME(number, name) \
  static_assert(number == static_cast<int>(WorkState::name))
DISTWRAP_SAME(DW_WORK_QUEUED, kQueued);
DISTWRAP_SAME(DW_WORK_RUNNING, kRunning);
DISTWRAP_SAME(DW_WORK_DONE, kDone);
DISTWRAP_SAME(DW_WORK_FAILED, kFailed);
DISTWRAP_SAME(DW_WORK_TIMED_OUT, kTimedOut);
DISTWRAP_SAME(DW_WORK_ABORTED, kAborted);
DISTWRAP_SAME(DW_WORK_CAPTURED, kCaptured);
#undef DISTWRAP_SAME

absl::StatusOr<std::vector<Work>> works_of(const char* call,
                                           const distwrap_work* handles,
                                           uint64_t count) {
  if (handles == nullptr && count != 0) return refuse_null(call, "works");
  std::vector<Work> works;
  for (uint64_t i = 0; i < count; ++i) {
    const auto found = held(call, handles[i]);
    if (!found.ok()) return found.status();
    works.push_back(**found);
  }
  return works;
}

// A callback of C or of another language with C functions.
class Callback {
 public:
  Callback(distwrap_callback function, void* user)
      : function_(function), user_(user) {}

  void operator()(const absl::Status& status) {
    distwrap_error error = nullptr;
    const int32_t code = status.ok() ? DW_OK : fail(status, &error);
    std::string threw;
    try {
      function_(user_, code, error);
    } catch (abi::__forced_unwind&) {
      throw;
    } catch (const std::exception& exception) {
      threw = absl::StrCat("the callback threw: ", exception.what());
    } catch (...) {
      threw = "the callback threw";
    }
    free_handle(error);
    if (threw.empty()) return;
    // A caller that is still in on_done gets the exception as an error; later
    // only the log is left.
    if (std::this_thread::get_id() == registrar_ && registering_)
      threw_ = std::move(threw);
    else
      base::log(base::LogLevel::kError, threw);
  }

  // Ends the registration; returns the text of an exception that was thrown
  // during it.
  std::string registered() {
    registering_ = false;
    return std::move(threw_);
  }

 private:
  const distwrap_callback function_;
  void* const user_;
  const std::thread::id registrar_ = std::this_thread::get_id();
  // Only the registering thread uses these two members.
  bool registering_ = true;
  std::string threw_;
};

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_work_wait(distwrap_work work, int64_t timeout,
                           distwrap_error* error) {
  return entry("work_wait", error, [&]() -> absl::Status {
    const auto found = held("work_wait", work);
    if (!found.ok()) return found.status();
    return (*found)->wait(duration_of(timeout));
  });
}

int32_t distwrap_work_wait_stream(distwrap_work work, const dw_stream* stream,
                                  distwrap_error* error) {
  constexpr const char* kCall = "work_wait_stream";
  return entry(kCall, error, [&]() -> absl::Status {
    if (stream == nullptr) return refuse_null(kCall, "stream");
    const auto found = held(kCall, work);
    if (!found.ok()) return found.status();
    return (*found)->wait_stream(
        {{stream->device_type, stream->device_id}, stream->native});
  });
}

int32_t distwrap_work_test(distwrap_work work, int32_t* ended,
                           distwrap_error* error) {
  return entry("work_test", error, [&]() -> absl::Status {
    if (ended == nullptr) return refuse_null("work_test", "ended");
    const auto found = held("work_test", work);
    if (!found.ok()) return found.status();
    *ended = (*found)->test() ? 1 : 0;
    return absl::OkStatus();
  });
}

int32_t distwrap_work_state(distwrap_work work, int32_t* state,
                            distwrap_error* error) {
  return entry("work_state", error, [&]() -> absl::Status {
    if (state == nullptr) return refuse_null("work_state", "state");
    const auto found = held("work_state", work);
    if (!found.ok()) return found.status();
    *state = static_cast<int32_t>((*found)->state());
    return absl::OkStatus();
  });
}

int32_t distwrap_work_status(distwrap_work work, distwrap_error* error) {
  return entry("work_status", error, [&]() -> absl::Status {
    const auto found = held("work_status", work);
    if (!found.ok()) return found.status();
    return (*found)->status();
  });
}

int32_t distwrap_work_seq(distwrap_work work, uint64_t* seq,
                          distwrap_error* error) {
  return entry("work_seq", error, [&]() -> absl::Status {
    if (seq == nullptr) return refuse_null("work_seq", "seq");
    const auto found = held("work_seq", work);
    if (!found.ok()) return found.status();
    *seq = (*found)->seq();
    return absl::OkStatus();
  });
}

int32_t distwrap_work_result(distwrap_work work, distwrap_output* outputs,
                             uint64_t capacity, uint64_t* count,
                             distwrap_error* error) {
  constexpr const char* kCall = "work_result";
  return entry(kCall, error, [&]() -> absl::Status {
    if (count == nullptr) return refuse_null(kCall, "count");
    if (outputs == nullptr && capacity != 0)
      return refuse_null(kCall, "outputs");
    const auto found = held(kCall, work);
    if (!found.ok()) return found.status();
    const std::vector<distwrap::TensorView> views = (*found)->result();
    *count = views.size();
    for (uint64_t i = 0; i < views.size() && i < capacity; ++i) {
      const distwrap::Device device = views[i].device();
      outputs[i] = {views[i].data(),
                    views[i].count(),
                    {device.type, device.id},
                    static_cast<int32_t>(views[i].dtype()),
                    0};
    }
    return absl::OkStatus();
  });
}

int32_t distwrap_work_on_done(distwrap_work work, distwrap_callback callback,
                              void* user, distwrap_error* error) {
  constexpr const char* kCall = "work_on_done";
  return entry(kCall, error, [&]() -> absl::Status {
    if (callback == nullptr) return refuse_null(kCall, "callback");
    const auto found = held(kCall, work);
    if (!found.ok()) return found.status();
    const auto call = std::make_shared<Callback>(callback, user);
    (*found)->on_done([call](const absl::Status& status) { (*call)(status); });
    std::string threw = call->registered();
    if (threw.empty()) return absl::OkStatus();
    return refuse(kCall, std::move(threw),
                  "catch exceptions inside of the callback");
  });
}

int32_t distwrap_work_event_fd(distwrap_work work, int32_t* fd,
                               distwrap_error* error) {
  return entry("work_event_fd", error, [&]() -> absl::Status {
    if (fd == nullptr) return refuse_null("work_event_fd", "fd");
    const auto found = held("work_event_fd", work);
    if (!found.ok()) return found.status();
    const absl::StatusOr<int> event = (*found)->event_fd();
    if (event.ok()) *fd = *event;
    return event.status();
  });
}

int32_t distwrap_work_cancel(distwrap_work work, distwrap_error* error) {
  return entry("work_cancel", error, [&]() -> absl::Status {
    const auto found = held("work_cancel", work);
    if (!found.ok()) return found.status();
    return (*found)->cancel();
  });
}

int32_t distwrap_work_all(const distwrap_work* works, uint64_t count,
                          distwrap_work* all, distwrap_error* error) {
  return entry("work_all", error, [&]() -> absl::Status {
    if (all == nullptr) return refuse_null("work_all", "all");
    *all = nullptr;
    auto found = works_of("work_all", works, count);
    if (!found.ok()) return found.status();
    return hand_out("work_all", distwrap::Work::all(*std::move(found)), all);
  });
}

int32_t distwrap_wait_any(const distwrap_work* works, uint64_t count,
                          int64_t timeout, uint64_t* index,
                          distwrap_error* error) {
  return entry("wait_any", error, [&]() -> absl::Status {
    if (index == nullptr) return refuse_null("wait_any", "index");
    const auto found = works_of("wait_any", works, count);
    if (!found.ok()) return found.status();
    const absl::StatusOr<size_t> first = distwrap::wait_any(
        *found, distwrap::Deadline::after(duration_of(timeout)));
    if (first.ok()) *index = *first;
    return first.status();
  });
}

int32_t distwrap_wait_all(const distwrap_work* works, uint64_t count,
                          int64_t timeout, distwrap_error* error) {
  return entry("wait_all", error, [&]() -> absl::Status {
    const auto found = works_of("wait_all", works, count);
    if (!found.ok()) return found.status();
    return distwrap::wait_all(*found,
                              distwrap::Deadline::after(duration_of(timeout)));
  });
}

int32_t distwrap_work_free(distwrap_work work) { return free_handle(work); }
