#include "comm/hints.h"

#include "base/error.h"
#include "base/nearest.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace distwrap::comm {
namespace {

dw_str abi_string(absl::string_view text) { return {text.data(), text.size()}; }

std::vector<std::string> known_names(
    absl::Span<const plugin::BackendPtr> backends) {
  std::vector<std::string> names;
  for (const plugin::BackendPtr& backend : backends) {
    const dw_backend_api& api = backend->api();
    for (uint64_t i = 0; i < api.n_hints; ++i)
      names.emplace_back(api.hints[i].data, api.hints[i].size);
  }
  return names;
}

bool contains(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string who(absl::Span<const plugin::BackendPtr> backends) {
  if (backends.size() == 1)
    return absl::StrCat("backend ", backends.front()->name(), " has no");
  return absl::StrCat(
      "none of the backends ",
      absl::StrJoin(backends, ", ",
                    [](std::string* out, const plugin::BackendPtr& backend) {
                      out->append(backend->name());
                    }),
      " has a");
}

}  // namespace

std::vector<dw_hint> hints_of(const Hints& hints) {
  std::vector<dw_hint> result;
  for (const auto& hint : hints)
    result.push_back({abi_string(hint.first), abi_string(hint.second)});
  return result;
}

absl::Status check_hints(absl::Span<const plugin::BackendPtr> backends,
                         const Hints& hints) {
  const std::vector<std::string> known = known_names(backends);
  for (const auto& hint : hints) {
    if (contains(known, hint.first)) continue;
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = absl::StrCat(who(backends), " hint '", hint.first, "'"),
         .op = "init",
         .expected = known.empty() ? "none" : absl::StrJoin(known, ", "),
         .next_step =
             known.empty()
                 ? "remove the hint"
                 : absl::StrCat("did you mean '",
                                base::nearest(hint.first, known), "'?")});
  }
  return absl::OkStatus();
}

Hints hints_known_to(absl::Span<const plugin::BackendPtr> backends,
                     const Hints& hints) {
  const std::vector<std::string> known = known_names(backends);
  Hints left;
  for (const auto& hint : hints)
    if (contains(known, hint.first)) left.insert(hint);
  return left;
}

}  // namespace distwrap::comm
