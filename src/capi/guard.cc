// The guard against direct calls, for C.
#include "distwrap/guard.h"

#include "capi/entry.h"
#include "distwrap/c.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::capi {
namespace {

List texts_of(const GuardStatus& status) {
  constexpr const char* kModes[] = {"off", "warn", "block", "require"};
  List texts = {
      absl::StrCat("mode ", kModes[static_cast<size_t>(status.mode)])};
  if (!status.door.empty()) texts.push_back(absl::StrCat("door ", status.door));
  for (const GuardStatus::Function& one : status.functions)
    texts.push_back(
        absl::StrCat("guarded ", one.library, " ", one.name, " ", one.instead));
  for (const GuardStatus::Function& one : status.refusals)
    texts.push_back(absl::StrCat("refused ", one.refused, " ", one.library, " ",
                                 one.name, " ", one.instead));
  for (const std::string& reason : status.scopes)
    texts.push_back(absl::StrCat("scope ", reason));
  return texts;
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_guard_enter(const char* reason, distwrap_error* error) {
  constexpr const char* kCall = "guard_enter";
  return entry(kCall, error, [&]() -> absl::Status {
    if (reason == nullptr) return refuse_null(kCall, "reason");
    distwrap::guard_enter(reason);
    return absl::OkStatus();
  });
}

int32_t distwrap_guard_leave(distwrap_error* error) {
  return entry("guard_leave", error, [] { return distwrap::guard_leave(); });
}

int32_t distwrap_guard_exempt(const char* prefix, distwrap_error* error) {
  constexpr const char* kCall = "guard_exempt";
  return entry(kCall, error, [&]() -> absl::Status {
    if (prefix == nullptr) return refuse_null(kCall, "prefix");
    distwrap::guard_exempt(prefix);
    return absl::OkStatus();
  });
}

int32_t distwrap_guard_status(distwrap_list* list, distwrap_error* error) {
  constexpr const char* kCall = "guard_status";
  return entry(kCall, error, [&]() -> absl::Status {
    if (list == nullptr) return refuse_null(kCall, "list");
    *list = nullptr;
    return hand_out(kCall, texts_of(distwrap::guard_status()), list);
  });
}
