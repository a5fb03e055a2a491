// The text of objects for people, cut where it gets too long.
#include "algo/objects/node.h"
#include "algo/objects/types.h"
#include "algo/objects/utf8.h"

#include <absl/strings/escaping.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <charconv>
#include <cmath>
#include <ostream>

namespace distwrap {
namespace {

using Kind = Object::Kind;

class Printer {
 public:
  explicit Printer(size_t limit) : limit_(limit) {}

  void print(const Object& object, int depth);
  std::string take() {
    if (text_.size() > limit_) {
      text_.resize(limit_);
      text_.resize(objects::whole_characters(text_).size());
      text_ += "...";
    }
    return std::move(text_);
  }

 private:
  bool full() const { return text_.size() > limit_; }
  // The part of a long text that can be shown at all.
  absl::string_view seen(absl::string_view text) const {
    return text.substr(0, full() ? 0 : limit_ - text_.size() + 1);
  }
  void print_items(const Object& object, int depth, const char* ends);
  void print_map(const Object& object, int depth);
  void print_number(double value);
  void print_text(absl::string_view text);
  void print_tensor(const ObjectTensor& tensor);

  const size_t limit_;
  std::string text_;
};

void Printer::print_items(const Object& object, int depth, const char* ends) {
  text_ += ends[0];
  const char* between = "";
  for (const Object& item : object.items()) {
    if (full()) return;
    text_ += between;
    print(item, depth + 1);
    between = ", ";
  }
  if (object.kind() == Kind::kTuple && object.size() == 1) text_ += ',';
  text_ += ends[1];
}

void Printer::print_map(const Object& object, int depth) {
  text_ += '{';
  const char* between = "";
  for (const Object::Entry& entry : object.entries()) {
    if (full()) return;
    text_ += between;
    print(entry.first, depth + 1);
    text_ += ": ";
    print(entry.second, depth + 1);
    between = ", ";
  }
  text_ += '}';
}

// The shortest text that reads back as the same number and differs from an
// integer.
void Printer::print_number(double value) {
  char buffer[40];
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof buffer, value);
  const absl::string_view digits(buffer, static_cast<size_t>(end.ptr - buffer));
  absl::StrAppend(&text_, digits);
  if (std::isfinite(value) &&
      digits.find_first_of(".e") == absl::string_view::npos)
    text_ += ".0";
}

void Printer::print_text(absl::string_view text) {
  const absl::string_view shown = seen(text);
  const bool fine = objects::is_utf8(
      shown.size() < text.size() ? objects::whole_characters(shown) : shown);
  absl::StrAppend(&text_, "\"",
                  fine ? absl::Utf8SafeCEscape(shown) : absl::CHexEscape(shown),
                  "\"");
}

void Printer::print_tensor(const ObjectTensor& tensor) {
  std::string type = absl::StrCat("code ", tensor.code, " bits ", tensor.bits,
                                  " lanes ", tensor.lanes);
  if (const auto view = tensor.view())
    type = std::string(dtype_name(view->dtype()));
  absl::StrAppend(&text_, "tensor<", type, ">[",
                  absl::StrJoin(tensor.shape, ", "), "]");
}

void Printer::print(const Object& object, int depth) {
  if (full()) return;
  if (depth > kObjectMaxDepth) {
    text_ += "...";
    return;
  }
  switch (object.kind()) {
    case Kind::kNull:
      text_ += "null";
      return;
    case Kind::kBool:
      text_ += *object.to_bool() ? "true" : "false";
      return;
    case Kind::kInteger:
      if (const auto small = object.to_int64()) {
        absl::StrAppend(&text_, *small);
      } else {
        const BigInteger big = *object.to_integer();
        absl::StrAppend(&text_, big.negative ? "-0x" : "0x",
                        absl::BytesToHexString(seen(big.magnitude)));
      }
      return;
    case Kind::kFloat:
      print_number(*object.to_double());
      return;
    case Kind::kText:
      print_text(*object.if_text());
      return;
    case Kind::kBytes:
      absl::StrAppend(&text_, "b\"", absl::CHexEscape(seen(*object.if_bytes())),
                      "\"");
      return;
    case Kind::kArray:
      print_items(object, depth, "[]");
      return;
    case Kind::kTuple:
      print_items(object, depth, "()");
      return;
    case Kind::kMap:
      print_map(object, depth);
      return;
    case Kind::kTensor:
      print_tensor(*object.if_tensor());
      return;
    case Kind::kExtension:
      absl::StrAppend(&text_, "extension \"",
                      absl::CHexEscape(seen(object.if_extension()->name)),
                      "\" (", object.if_extension()->bytes.size(), " bytes)");
      return;
    case Kind::kOther:
      absl::StrAppend(
          &text_, "<",
          objects::type_text(ObjectAccess::node(object)->as<OtherValue>().type),
          ">");
      return;
  }
}

}  // namespace

std::string Object::to_string(size_t limit) const {
  Printer printer(limit);
  printer.print(*this, 0);
  return printer.take();
}

std::ostream& operator<<(std::ostream& out, const Object& object) {
  return out << object.to_string();
}

}  // namespace distwrap
