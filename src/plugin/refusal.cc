#include "plugin/refusal.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

namespace distwrap::plugin {
namespace {

struct Row {
  absl::string_view name, text, next_step;
};

constexpr Row kRows[] = {
#define DW_REFUSAL(enumerator, name, text, next) {name, text, next},
#include "plugin/refusals.def"
};

const Row& row(Refusal refusal) { return kRows[static_cast<int>(refusal)]; }

}  // namespace

absl::string_view refusal_name(Refusal refusal) { return row(refusal).name; }

absl::Status refuse(Refusal refusal, absl::string_view origin,
                    const RefusalDetail& detail) {
  return base::make_error(
      {.reason = Reason::kPluginRefused,
       .what = absl::StrCat("plugin ", origin, ": ", row(refusal).name, ": ",
                            row(refusal).text, detail.about.empty() ? "" : ": ",
                            detail.about),
       .expected = detail.expected,
       .actual = detail.actual,
       .cause = detail.cause,
       .next_step = std::string(row(refusal).next_step)});
}

}  // namespace distwrap::plugin
