// Extensions of C programs that are sent in objects.
#include "base/error.h"
#include "base/mutex.h"
#include "capi/entry.h"
#include "distwrap/c.h"
#include "distwrap/object.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <string>
#include <typeindex>
#include <utility>

namespace distwrap::capi {
namespace {

// The C++ registration needs a distinct type for each name, which C cannot
// give.
template <size_t kIndex>
struct Placeholder {};

template <size_t... kIndices>
std::array<std::type_index, sizeof...(kIndices)> types_of(
    std::index_sequence<kIndices...>) {
  return {std::type_index(typeid(Placeholder<kIndices>))...};
}

absl::Status register_type(const char* call, const std::string& name,
                           distwrap_object_check check, void* user) {
  static const auto kTypes = types_of(std::make_index_sequence<64>());
  static base::Mutex mutex;
  static size_t used = 0;
  base::MutexLock lock(mutex);
  if (used == kTypes.size())
    return base::make_error({.reason = Reason::kResourceLimit,
                             .what = "64 names are registered already",
                             .op = call,
                             .next_step = "use one name for several types"});
  absl::Status status = internal::register_object_type(
      kTypes[used], name,
      [](const void*) -> absl::StatusOr<std::string> {
        return absl::InternalError("C has no values of this type");
      },
      [check, user, name](absl::string_view bytes) -> absl::StatusOr<Object> {
        const distwrap_bytes given = {bytes.data(), bytes.size()};
        const int32_t code = check(user, &given);
        if (code != DW_OK)
          return absl::Status(base::code_of_abi(code),
                              absl::StrCat("the check of '", name,
                                           "' refused it with code ", code));
        return Object::extension(name, std::string(bytes));
      });
  if (status.ok()) ++used;
  return status;
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_register_object_type(const char* name,
                                      distwrap_object_check check, void* user,
                                      distwrap_error* error) {
  constexpr const char* kCall = "register_object_type";
  return entry(kCall, error, [&]() -> absl::Status {
    if (name == nullptr) return refuse_null(kCall, "name");
    if (check == nullptr) return refuse_null(kCall, "check");
    return register_type(kCall, name, check, user);
  });
}
