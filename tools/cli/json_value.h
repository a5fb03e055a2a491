// A JSON document to print; bench/json.h makes the text.
//
// Threads: values.
//
//   JsonObject row = {{"name", "gloo"}, {"loadable", true}};
#ifndef DISTWRAP_TOOLS_CLI_JSON_VALUE_H_
#define DISTWRAP_TOOLS_CLI_JSON_VALUE_H_

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace distwrap::cli {

struct JsonValue;
using JsonArray = std::vector<JsonValue>;
// Members are printed in this order.
using JsonObject = std::vector<std::pair<std::string, JsonValue>>;

struct JsonValue {
  JsonValue() = default;  // null
  JsonValue(bool b) : value(b) {}
  JsonValue(int n) : value(int64_t{n}) {}
  JsonValue(int64_t n) : value(n) {}
  JsonValue(uint64_t n) : value(static_cast<int64_t>(n)) {}
  JsonValue(double x) : value(x) {}
  JsonValue(const char* text) : value(std::string(text)) {}
  JsonValue(absl::string_view text) : value(std::string(text)) {}
  JsonValue(std::string text) : value(std::move(text)) {}
  JsonValue(JsonArray array) : value(std::move(array)) {}
  JsonValue(JsonObject object) : value(std::move(object)) {}

  std::variant<std::monostate, bool, int64_t, double, std::string, JsonArray,
               JsonObject>
      value;
};

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_JSON_VALUE_H_
