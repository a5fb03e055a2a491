// Errors of the loader: one named refusal for each rule that a file can break.
//
//   return refuse(Refusal::kWrongMachine, path,
//                 {.expected = "machine 62", .actual = "machine 183"});
#ifndef DISTWRAP_SRC_PLUGIN_REFUSAL_H_
#define DISTWRAP_SRC_PLUGIN_REFUSAL_H_

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <string>

namespace distwrap::plugin {

enum class Refusal {
#define DW_REFUSAL(enumerator, name, text, next) enumerator,
#include "plugin/refusals.def"
};

// The name of a refusal: "wrong machine".
absl::string_view refusal_name(Refusal refusal);

struct RefusalDetail {
  std::string about = {};  // the exact object: a folder, a slot
  std::string expected = {};
  std::string actual = {};
  std::string cause = {};
};

// kPluginRefused with the text "plugin <origin>: <name>: <text>: <about>; ...".
absl::Status refuse(Refusal refusal, absl::string_view origin,
                    const RefusalDetail& detail = {});

}  // namespace distwrap::plugin

#endif  // DISTWRAP_SRC_PLUGIN_REFUSAL_H_
