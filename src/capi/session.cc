// Start and end of sessions.
#include "base/settings.h"
#include "capi/entry.h"
#include "distwrap/c.h"
#include "distwrap/distwrap.h"
#include "facade/binding.h"
#include "group/session_state.h"

#include <map>
#include <utility>

namespace distwrap::capi {
namespace {

std::optional<absl::Duration> unless_zero(int64_t timeout) {
  if (timeout == 0) return std::nullopt;
  return duration_of(timeout);
}

absl::StatusOr<InitOptions> options_of(const char* call,
                                       const distwrap_init_options* given) {
  distwrap_init_options read;
  if (absl::Status status = read_options(call, given, &read); !status.ok())
    return status;
  InitOptions options;
  options.backend = text_of(read.backend);
  if (read.has_rank != 0) {
    if (read.rank < 0)
      return refuse(call, "rank is negative",
                    "give a rank of 0 or more, or has_rank = 0");
    options.rank = read.rank;
  }
  if (read.world_size != 0) options.world_size = read.world_size;
  if (read.store != nullptr) {
    const auto store = held(call, read.store);
    if (!store.ok()) return store.status();
    options.store = **store;
  }
  options.init_method = text_of(read.init_method);
  options.timeout = unless_zero(read.timeout);
  options.init_timeout = unless_zero(read.init_timeout);
  if (read.group_name != nullptr) options.group_name = read.group_name;
  if (read.has_device_id != 0) options.device_id = read.device_id;
  if (read.drop_in > DW_DROP_IN_OFF)
    return refuse(call, "drop_in has no such value",
                  "give DW_DROP_IN_ON, DW_DROP_IN_OFF, or 0 for the setting");
  if (read.drop_in != 0) options.drop_in = read.drop_in == DW_DROP_IN_ON;
  options.straggler = unless_zero(read.straggler);
  if (read.check > DW_CHECK_FULL)
    return refuse(
        call, "check has no such value",
        "give DW_CHECK_SIGNATURE, DW_CHECK_FULL, DW_CHECK_OFF, or 0 for the "
        "setting");
  if (read.check != 0)
    options.check = read.check == DW_CHECK_SIGNATURE ? Check::kSignature
                    : read.check == DW_CHECK_FULL    ? Check::kFull
                                                     : Check::kOff;
  if (read.guard > DW_GUARD_REQUIRE)
    return refuse(call, "guard has no such value",
                  "give DW_GUARD_OFF, DW_GUARD_WARN, DW_GUARD_BLOCK, "
                  "DW_GUARD_REQUIRE, or 0 for the setting");
  if (read.guard != 0) options.guard = static_cast<GuardMode>(read.guard - 1);
  if (read.has_interrupt_fd != 0) options.interrupt_fd = read.interrupt_fd;
  auto hints = pairs_of(call, read.hints, read.hints_count);
  if (!hints.ok()) return hints.status();
  options.hints = *std::move(hints);
  return options;
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_init_process_group(const distwrap_init_options* options,
                                    distwrap_session* session,
                                    distwrap_error* error) {
  if (session != nullptr) *session = nullptr;
  constexpr const char* kCall = "init_process_group";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto read = options_of(kCall, options);
    if (!read.ok()) return read.status();
    const auto make = [&] { return distwrap::init_process_group(*read); };
    return session == nullptr ? make().status()
                              : hand_out_started(kCall, session, make);
  });
}

int32_t distwrap_session_create(const distwrap_init_options* options,
                                distwrap_session* session,
                                distwrap_error* error) {
  constexpr const char* kCall = "session_create";
  return entry(kCall, error, [&]() -> absl::Status {
    if (session == nullptr) return refuse_null(kCall, "session");
    *session = nullptr;
    const auto read = options_of(kCall, options);
    if (!read.ok()) return read.status();
    return hand_out_started(kCall, session,
                            [&] { return distwrap::Session::create(*read); });
  });
}

int32_t distwrap_session_world(distwrap_session session, distwrap_group* group,
                               distwrap_error* error) {
  constexpr const char* kCall = "session_world";
  return entry(kCall, error, [&]() -> absl::Status {
    if (group == nullptr) return refuse_null(kCall, "group");
    *group = nullptr;
    const auto found = held(kCall, session);
    if (!found.ok()) return found.status();
    return hand_out_group(kCall, (**found).world(), group);
  });
}

int32_t distwrap_session_store(distwrap_session session, distwrap_store* store,
                               distwrap_error* error) {
  constexpr const char* kCall = "session_store";
  return entry(kCall, error, [&]() -> absl::Status {
    if (store == nullptr) return refuse_null(kCall, "store");
    *store = nullptr;
    const auto found = held(kCall, session);
    if (!found.ok()) return found.status();
    return hand_out(kCall, (**found).store(), store);
  });
}

int32_t distwrap_session_is_open(distwrap_session session) {
  const auto found = held("session_is_open", session);
  return found.ok() && !(**found).state()->closed() ? 1 : 0;
}

int32_t distwrap_session_guard(distwrap_session session) {
  const auto found = held("session_guard", session);
  return found.ok()
             ? DW_GUARD_OFF + static_cast<int32_t>((**found).state()->guard())
             : DW_GUARD_OFF;
}

int32_t distwrap_destroy_process_group(distwrap_group group,
                                       distwrap_error* error) {
  constexpr const char* kCall = "destroy_process_group";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = group_of(kCall, group);
    if (!found.ok()) return found.status();
    return distwrap::destroy_process_group(*found);
  });
}

int32_t distwrap_bind_session(distwrap_session session, distwrap_error* error) {
  constexpr const char* kCall = "bind_session";
  return entry(kCall, error, [&]() -> absl::Status {
    if (session == nullptr) {
      distwrap::bind_session({});
      return absl::OkStatus();
    }
    const auto found = held(kCall, session);
    if (!found.ok()) return found.status();
    distwrap::bind_session(**found);
    return absl::OkStatus();
  });
}

int32_t distwrap_session_close(distwrap_session session, int64_t timeout,
                               distwrap_error* error) {
  constexpr const char* kCall = "session_close";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, session);
    if (!found.ok()) return found.status();
    return (*found)->close(duration_of(timeout));
  });
}

int32_t distwrap_save_recording(distwrap_session session, distwrap_list* list,
                                distwrap_error* error) {
  constexpr const char* kCall = "save_recording";
  return entry(kCall, error, [&]() -> absl::Status {
    if (list == nullptr) return refuse_null(kCall, "list");
    *list = nullptr;
    distwrap::Session chosen = distwrap::facade::session_of_thread();
    if (session != nullptr) {
      const auto found = held(kCall, session);
      if (!found.ok()) return found.status();
      chosen = **found;
    }
    auto path = chosen.save_recording();
    if (!path.ok()) return path.status();
    return hand_out(kCall, List{*std::move(path)}, list);
  });
}

int32_t distwrap_session_free(distwrap_session session) {
  return free_handle(session);
}

int32_t distwrap_is_initialized(void) {
  return distwrap::is_initialized() ? 1 : 0;
}

const char* distwrap_version(void) {
  return distwrap::base::library_version().data();
}

int32_t distwrap_is_available(void) { return distwrap::is_available() ? 1 : 0; }
