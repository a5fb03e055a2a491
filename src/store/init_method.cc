#include "store/init_method.h"

#include "base/error.h"
#include "base/nearest.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <optional>
#include <vector>

namespace distwrap::store {
namespace {

absl::Status bad(absl::string_view text, std::string what, std::string expected,
                 std::string next_step = {}) {
  return base::make_error({.reason = Reason::kInvalidArgument,
                           .what = std::move(what),
                           .op = "init",
                           .expected = std::move(expected),
                           .actual = absl::StrCat("'", text, "'"),
                           .next_step = std::move(next_step)});
}

std::optional<InitMethod::Kind> kind_of(absl::string_view scheme) {
  if (scheme == "env") return InitMethod::kEnvironment;
  if (scheme == "tcp") return InitMethod::kTcp;
  if (scheme == "file") return InitMethod::kFile;
  if (scheme == "unix") return InitMethod::kUnix;
  return std::nullopt;
}

bool is_host_and_port(absl::string_view place) {
  const size_t colon = place.rfind(':');
  int port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         place.find('/') == absl::string_view::npos &&
         absl::SimpleAtoi(place.substr(colon + 1), &port) && port > 0 &&
         port < 65536;
}

bool is_absolute(absl::string_view place) {
  return place.size() > 1 && place.front() == '/' && place.back() != '/' &&
         place.find('\0') == absl::string_view::npos;
}

absl::Status read_query(absl::string_view text, absl::string_view query,
                        InitMethod* method) {
  for (const absl::string_view pair : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    int* const value = parts.first == "rank"         ? &method->rank
                       : parts.first == "world_size" ? &method->world_size
                                                     : nullptr;
    if (value == nullptr)
      return bad(
          text,
          absl::StrCat("the init method has no parameter '", parts.first, "'"),
          "rank and world_size",
          absl::StrCat("did you mean '",
                       base::nearest(parts.first, {"rank", "world_size"}),
                       "'?"));
    if (!absl::SimpleAtoi(parts.second, value) || *value < 0)
      return bad(text,
                 absl::StrCat("'", parts.first,
                              "' of the init method is not "
                              "usable"),
                 "a number from 0 on");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InitMethod> parse_init_method(absl::string_view text) {
  InitMethod method;
  if (text.empty()) return method;
  constexpr char kForms[] =
      "env://, tcp://host:port, file:///path or unix:/path";
  const size_t colon = text.find(':');
  const absl::string_view scheme =
      text.substr(0, colon == absl::string_view::npos ? 0 : colon);
  const std::optional<InitMethod::Kind> kind = kind_of(scheme);
  if (!kind.has_value())
    return bad(
        text, "the init method is of no known kind", kForms,
        scheme.empty()
            ? "put the kind before the place"
            : absl::StrCat(
                  "did you mean '",
                  base::nearest(scheme, {"env", "tcp", "file", "unix"}), "'?"));
  method.kind = *kind;
  absl::string_view rest = text.substr(colon + 1);
  if (rest.substr(0, 2) == "//")
    rest.remove_prefix(2);
  else if (method.kind != InitMethod::kUnix)
    return bad(text, "the init method has no '//'", kForms);
  // A Unix path may contain a question mark; in other forms it begins the
  // parameters.
  const size_t mark = method.kind == InitMethod::kUnix ? absl::string_view::npos
                                                       : rest.find('?');
  if (mark != absl::string_view::npos) {
    if (absl::Status status = read_query(text, rest.substr(mark + 1), &method);
        !status.ok())
      return status;
    rest = rest.substr(0, mark);
  }
  const bool fits = method.kind == InitMethod::kEnvironment ? rest.empty()
                    : method.kind == InitMethod::kTcp ? is_host_and_port(rest)
                                                      : is_absolute(rest);
  if (!fits)
    return bad(text, "the place of the init method is not usable",
               method.kind == InitMethod::kTcp
                   ? "tcp://host:port, the port from 1 to 65535"
               : method.kind == InitMethod::kEnvironment
                   ? "env:// and nothing after it but parameters"
                   : "an absolute path, not a folder's");
  method.place = std::string(rest);
  return method;
}

}  // namespace distwrap::store
