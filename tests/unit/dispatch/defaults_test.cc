// PIT-12: a default of a schema and the default of the C++ function are one
// value. Both stand in a row of distwrap/ops.def, which is compared as text.
#include "distwrap/ops.h"
#include "distwrap/registration.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace distwrap::dispatch {
namespace {

struct Row {
  const char* name;
  const char* overload;
  const char* params;
};
const Row kRows[] = {
#define DW_OP(name, overload, schema, result, params, args) \
  {#name, #overload, #params},
#include "distwrap/ops.def"
};

// The parameters of "(const Tensor& self, Ints dim = {}, ...)".
std::vector<std::string> split(std::string text) {
  text = text.substr(1, text.size() - 2);
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '<' || c == '{' || c == '(') ++depth;
    if (c == '>' || c == '}' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The C++ spelling as the schema spells the value.
std::string as_schema(std::string text) {
  text = std::string(absl::StripAsciiWhitespace(text));
  static const auto* const spellings = new std::map<std::string, std::string>{
      {"{}", "None"},         {"nullptr", "None"},
      {"false", "False"},     {"true", "True"},
      {"DType::kF32", "f32"}, {"DType::kI64", "i64"},
      {"kCpu", "cpu"},        {"INT64_MAX", "9223372036854775807"}};
  const auto found = spellings->find(text);
  return found == spellings->end() ? text : found->second;
}

TEST(Defaults, OfSchemasAndOfCppFunctionsAgree) {
  int compared = 0;
  for (const Row& row : kRows) {
    const std::string name = std::string("dw::") + row.name +
                             (*row.overload == 0 ? "" : ".") + row.overload;
    const auto schema = find_operator(name).schema();
    ASSERT_TRUE(schema.ok()) << schema.status();
    const std::vector<std::string> params = split(row.params);
    ASSERT_EQ(params.size(), (*schema)->params.size()) << name;
    for (size_t i = 0; i < params.size(); ++i) {
      const SchemaParam& declared = (*schema)->params[i];
      const std::vector<std::string> halves =
          absl::StrSplit(params[i], absl::MaxSplits(" = ", 1));
      ASSERT_EQ(halves.size() == 2, declared.value != nullptr)
          << name << ", " << declared.name;
      if (halves.size() < 2) continue;
      const std::string spelled = as_schema(halves[1]);
      double number = 0, wanted = 0;
      if (absl::SimpleAtod(spelled, &number) &&
          absl::SimpleAtod(declared.value_text, &wanted)) {
        EXPECT_EQ(number, wanted) << name << ", " << declared.name;
      } else {
        EXPECT_EQ(spelled, declared.value_text)
            << name << ", " << declared.name;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 60);
}

}  // namespace
}  // namespace distwrap::dispatch
