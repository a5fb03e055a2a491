// The parser of schemas: recursive descent over one line of text. It reads each
// character once, so its time is bounded by the length.
#include "distwrap/schema.h"

#include "distwrap/status.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <utility>

namespace distwrap {
namespace {

absl::string_view base_name(BaseType base) {
  switch (base) {
#define DW_SCHEMA_TYPE(enumerator, name) \
  case BaseType::enumerator:             \
    return name;
#include "distwrap/schema_types.def"
  }
  return "?";
}

std::string alias_text(const SchemaAlias& alias) {
  std::string text = absl::StrCat("(", absl::StrJoin(alias.before, "|"),
                                  alias.write ? "!" : "");
  if (alias.after != alias.before) {
    absl::StrAppend(&text, " -> ", absl::StrJoin(alias.after, "|"));
  }
  return absl::StrCat(text, ")");
}

std::string type_text(const SchemaType& type,
                      const std::optional<SchemaAlias>& alias) {
  std::string text(base_name(type.base));
  if (alias.has_value()) absl::StrAppend(&text, alias_text(*alias));
  if (type.optional_entries) text += "?";
  if (type.list) {
    text += type.length > 0 ? absl::StrCat("[", type.length, "]") : "[]";
  }
  if (type.optional) text += "?";
  return text;
}

// Thrown within this file only.
struct ParseError {
  size_t column;
  std::string expected;
};

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  Schema schema() {
    Schema schema;
    schema.name = identifier("the name of a namespace");
    expect("::");
    absl::StrAppend(&schema.name, "::", identifier("the name of the operator"));
    if (take(".")) schema.overload = identifier("the name of the overload");
    params(schema);
    expect("->");
    returns(schema);
    skip_blanks();
    if (at_ != text_.size()) fail("the end of the schema");
    derive(schema);
    return schema;
  }

 private:
  [[noreturn]] void fail(absl::string_view expected) {
    throw ParseError{at_, std::string(expected)};
  }
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(absl::string_view token) {
    skip_blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(absl::string_view token) {
    if (!take(token)) fail(absl::StrCat("'", token, "'"));
  }
  bool at_identifier() {
    skip_blanks();
    return at_ < text_.size() &&
           (absl::ascii_isalpha(static_cast<unsigned char>(text_[at_])) ||
            text_[at_] == '_');
  }
  std::string identifier(absl::string_view what) {
    if (!at_identifier()) fail(what);
    const size_t first = at_;
    while (at_ < text_.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text_[at_])) ||
            text_[at_] == '_')) {
      ++at_;
    }
    return std::string(text_.substr(first, at_ - first));
  }

  void params(Schema& schema) {
    expect("(");
    bool keyword_only = false, star = false;
    if (take(")")) return;
    do {
      if (take("*")) {
        if (keyword_only) fail("one '*' only");
        keyword_only = star = true;
        continue;
      }
      star = false;
      if (schema.params.size() == Schema::kMostParams) {
        fail(absl::StrCat("at most ", Schema::kMostParams, " parameters"));
      }
      schema.params.push_back(param(keyword_only));
      const std::string& name = schema.params.back().name;
      for (size_t i = 0; i + 1 < schema.params.size(); ++i) {
        if (schema.params[i].name == name) fail("a name of its own");
      }
    } while (take(","));
    if (star) fail("a parameter after '*'");
    expect(")");
  }

  SchemaParam param(bool keyword_only) {
    SchemaParam param;
    param.keyword_only = keyword_only;
    type(param.type, param.alias);
    param.name = identifier("the name of the parameter");
    if (take("=")) {
      skip_blanks();
      const size_t first = at_;
      param.value = std::make_shared<const Value>(value(param.type));
      param.value_text = std::string(text_.substr(first, at_ - first));
    }
    return param;
  }

  void type(SchemaType& type, std::optional<SchemaAlias>& alias) {
    skip_blanks();
    const size_t first = at_;
    const std::string name = identifier("a type");
    bool known = name == "SymInt";
    if (known) type.base = BaseType::kInt;
#define DW_SCHEMA_TYPE(enumerator, text) \
  if (name == (text)) {                  \
    type.base = BaseType::enumerator;    \
    known = true;                        \
  }
#include "distwrap/schema_types.def"
    if (!known) {
      at_ = first;
      fail(
          "a type: Tensor, int, float, bool, str, Scalar, ScalarType, Device, "
          "Layout, MemoryFormat or Generator");
    }
    if (text_.substr(at_, 1) == "(") {
      if (type.base != BaseType::kTensor) fail("a mark on Tensor only");
      alias = this->alias();
    }
    const bool optional = take_close("?");
    if (take_close("[")) {
      type.list = true;
      type.optional_entries = optional;
      skip_blanks();
      if (at_ < text_.size() &&
          absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]))) {
        type.length = static_cast<int32_t>(length());
      }
      expect("]");
      type.optional = take_close("?");
    } else {
      type.optional = optional;
    }
    if (text_.substr(at_, 1) == "(" && type.base == BaseType::kTensor &&
        !alias.has_value()) {
      fail("the mark right after Tensor");
    }
  }
  // A sign that belongs to the type before it, without a blank.
  bool take_close(absl::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  int64_t length() {
    const size_t first = at_;
    while (at_ < text_.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]))) {
      ++at_;
    }
    int64_t number = 0;
    if (!absl::SimpleAtoi(text_.substr(first, at_ - first), &number) ||
        number < 1 || number > 64) {
      at_ = first;
      fail("a length from 1 to 64");
    }
    return number;
  }

  SchemaAlias alias() {
    SchemaAlias alias;
    expect("(");
    alias.before = sets();
    alias.write = take("!");
    alias.after = take("->") ? sets() : alias.before;
    expect(")");
    return alias;
  }
  std::vector<std::string> sets() {
    std::vector<std::string> sets;
    do {
      sets.push_back(take("*") ? "*" : identifier("the name of a set or '*'"));
    } while (take("|"));
    return sets;
  }

  void returns(Schema& schema) {
    if (!take("(")) {
      schema.returns.push_back(one_return());
      return;
    }
    if (take(")")) return;
    do {
      if (schema.returns.size() == Schema::kMostParams) {
        fail(absl::StrCat("at most ", Schema::kMostParams, " results"));
      }
      schema.returns.push_back(one_return());
    } while (take(","));
    expect(")");
  }
  SchemaReturn one_return() {
    SchemaReturn result;
    type(result.type, result.alias);
    if (at_identifier()) result.name = identifier("the name of the result");
    return result;
  }

  Value value(const SchemaType& type) {
    if (type.list && take("[")) return list(type);
    const size_t first = at_;
    Value value = element(type);
    if (type.list && !value.is_none()) {
      if (type.length == 0) {
        at_ = first;
        fail("a list in brackets");
      }
      return repeated(type, value);
    }
    return value;
  }
  Value repeated(const SchemaType& type, const Value& value) {
    const auto length = static_cast<size_t>(type.length);
    if (type.base == BaseType::kInt) {
      const std::vector<int64_t> ints(length, value.to_int());
      return Value::own_copy(Ints(ints));
    }
    if (type.base == BaseType::kFloat) {
      const std::vector<double> floats(length, value.to_float());
      return Value::own_copy(absl::Span<const double>(floats));
    }
    fail("None or a list in brackets");
  }
  Value list(const SchemaType& type) {
    std::vector<int64_t> ints;
    std::vector<double> floats;
    SchemaType element_type = type;
    element_type.list = element_type.optional = false;
    if (!take("]")) {
      do {
        if (type.base == BaseType::kInt) {
          ints.push_back(element(element_type).to_int());
        } else if (type.base == BaseType::kFloat) {
          floats.push_back(element(element_type).to_float());
        } else {
          fail("']'");
        }
      } while (take(","));
      expect("]");
    }
    if (type.base == BaseType::kFloat) {
      return Value::own_copy(absl::Span<const double>(floats));
    }
    if (type.base == BaseType::kBool) {
      return Value::own_copy(absl::Span<const bool>());
    }
    if (type.base == BaseType::kTensor) return Value::own_copy(TensorList());
    return Value::own_copy(Ints(ints));
  }

  Value element(const SchemaType& type) {
    skip_blanks();
    const size_t first = at_;
    if (at_identifier() && text_.substr(at_, 3) != "inf" &&
        text_.substr(at_, 3) != "nan") {
      const std::string word = identifier("a value");
      if (word == "None" && (type.optional || type.base == BaseType::kTensor)) {
        return Value();
      }
      const bool truth = word == "True";
      if ((truth || word == "False") &&
          (type.base == BaseType::kBool || type.base == BaseType::kScalar)) {
        return Value(truth);
      }
      if (type.base == BaseType::kScalarType) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  if (word == #text) return Value(DType::enumerator);
#include "distwrap/abi/dtypes.def"
      }
      if (type.base == BaseType::kDevice) {
        for (const Device device : {kCpu, Device{.type = 2}, kMeta, kPrivate1,
                                    kPrivate2, kPrivate3}) {
          if (word == dispatch::backend_name(dispatch::backend_of(device))) {
            return Value(device);
          }
        }
      }
      at_ = first;
      fail(absl::StrCat("a value of ", type.text()));
    }
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      if (type.base != BaseType::kStr) fail(absl::StrCat("a ", type.text()));
      const size_t end = text_.find(text_[at_], at_ + 1);
      if (end == absl::string_view::npos) fail("the end of the text");
      const absl::string_view held = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return Value::own_copy(held);
    }
    return number(type);
  }
  Value number(const SchemaType& type) {
    const size_t first = at_;
    while (at_ < text_.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text_[at_])) ||
            text_[at_] == '.' || text_[at_] == '+' || text_[at_] == '-')) {
      ++at_;
    }
    const absl::string_view digits = text_.substr(first, at_ - first);
    int64_t whole = 0;
    double real = 0;
    const bool number = type.base == BaseType::kInt ||
                        type.base == BaseType::kFloat ||
                        type.base == BaseType::kScalar;
    if (number && absl::SimpleAtoi(digits, &whole)) {
      return type.base == BaseType::kFloat ? Value(static_cast<double>(whole))
                                           : Value(whole);
    }
    if (number && type.base != BaseType::kInt &&
        absl::SimpleAtod(digits, &real)) {
      return Value(real);
    }
    at_ = first;
    fail(absl::StrCat("a value of ", type.text()));
  }

  void derive(Schema& schema) {
    for (size_t i = 0; i < schema.params.size(); ++i) {
      const SchemaParam& param = schema.params[i];
      const uint64_t bit = uint64_t{1} << i;
      if (param.type.base == BaseType::kTensor) schema.tensors |= bit;
      if (param.alias.has_value() && param.alias->write) schema.written |= bit;
    }
    schema.is_mutable = schema.written != 0;
    for (const SchemaReturn& result : schema.returns) {
      int of = -1;
      if (result.alias.has_value()) {
        for (size_t i = 0; i < schema.params.size() && of < 0; ++i) {
          const auto& alias = schema.params[i].alias;
          if (alias.has_value() && shares(*alias, *result.alias)) {
            of = static_cast<int>(i);
          }
        }
        if (of < 0) fail("a result's mark that a parameter has, too");
        if (!result.alias->write) schema.is_view = true;
      }
      schema.result_of.push_back(of);
    }
    schema.in_place = (schema.written & 1) != 0 && schema.returns.size() == 1 &&
                      schema.result_of[0] == 0;
    schema.out_form =
        !schema.returns.empty() &&
        std::all_of(
            schema.result_of.begin(), schema.result_of.end(), [&](int of) {
              return of >= 0 && (schema.written >> of & 1) != 0 &&
                     schema.params[static_cast<size_t>(of)].keyword_only;
            });
  }
  static bool shares(const SchemaAlias& param, const SchemaAlias& result) {
    return std::any_of(
        result.before.begin(), result.before.end(), [&](const auto& set) {
          return std::find(param.before.begin(), param.before.end(), set) !=
                     param.before.end() ||
                 std::find(param.after.begin(), param.after.end(), set) !=
                     param.after.end();
        });
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string SchemaType::text() const { return type_text(*this, {}); }

absl::StatusOr<Schema> Schema::parse(absl::string_view text) {
  if (text.size() > kMostCharacters) {
    return make_error({.reason = Reason::kSchemaParse,
                       .what = absl::StrCat("the schema is longer than ",
                                            kMostCharacters, " characters"),
                       .op = "Schema::parse",
                       .actual = absl::StrCat(text.size())});
  }
  try {
    return Parser(text).schema();
  } catch (const ParseError& error) {
    return make_error(
        {.reason = Reason::kSchemaParse,
         .what =
             absl::StrCat("column ", error.column + 1, " of \"", text, "\""),
         .op = "Schema::parse",
         .expected = error.expected,
         .actual = error.column < text.size()
                       ? absl::StrCat("\"", text.substr(error.column, 20), "\"")
                       : "the end"});
  }
}

std::string Schema::full_name() const {
  return overload.empty() ? name : absl::StrCat(name, ".", overload);
}

std::string Schema::text() const {
  std::string text = absl::StrCat(full_name(), "(");
  bool first = true, keywords = false;
  for (const SchemaParam& param : params) {
    if (!std::exchange(first, false)) text += ", ";
    if (param.keyword_only && !std::exchange(keywords, true)) text += "*, ";
    absl::StrAppend(&text, type_text(param.type, param.alias), " ", param.name);
    if (param.value != nullptr) absl::StrAppend(&text, "=", param.value_text);
  }
  text += ") -> ";
  const auto one = [](const SchemaReturn& result) {
    std::string type = type_text(result.type, result.alias);
    return result.name.empty() ? type : absl::StrCat(type, " ", result.name);
  };
  if (returns.size() == 1) return absl::StrCat(text, one(returns[0]));
  std::vector<std::string> results;
  for (const SchemaReturn& result : returns) results.push_back(one(result));
  return absl::StrCat(text, "(", absl::StrJoin(results, ", "), ")");
}

}  // namespace distwrap
