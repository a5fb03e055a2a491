#include "dispatch/fail.h"

#include "distwrap/key_set.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>

namespace distwrap::dispatch {

std::string device_text(Device device) {
  const int backend = backend_of(device);
  std::string name = backend < 0 ? absl::StrCat("device ", device.type)
                                 : std::string(backend_name(backend));
  if (device.id != 0) absl::StrAppend(&name, ":", device.id);
  return name;
}

std::string dims_text(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

absl::Status bad_argument(absl::string_view op, std::string what,
                          std::string expected, std::string actual) {
  return make_error({.reason = Reason::kArgument,
                     .what = std::move(what),
                     .op = std::string(op),
                     .expected = std::move(expected),
                     .actual = std::move(actual)});
}

}  // namespace distwrap::dispatch
