// Schemas: the declared type of an operator, with what it writes and which
// results are views of which arguments.
//
//   dw::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
//   dw::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
//   dw::select(Tensor(a) self, int dim, int index) -> Tensor(a)
//
// `(a)` marks memory that an argument and a result share, `(a!)` memory that
// the operator writes. SymInt is int. Defaults stand here and nowhere else.
//
// Threads and ownership: values.
//
//   StatusOr<Schema> schema = Schema::parse("demo::relu6(Tensor x) -> Tensor");
#ifndef DISTWRAP_SCHEMA_H_
#define DISTWRAP_SCHEMA_H_

#include "distwrap/export.h"
#include "distwrap/value.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap {

enum class BaseType : uint8_t {
#define DW_SCHEMA_TYPE(enumerator, name) enumerator,
#include "distwrap/schema_types.def"
};

struct SchemaType {
  BaseType base = BaseType::kTensor;
  bool list = false;
  // The value may be None.
  bool optional = false;
  // The entries of the list may be None.
  bool optional_entries = false;
  // `int[2]`: one number stands for a list of this length; 0 otherwise.
  int32_t length = 0;
  // Equal but for the length.
  bool same_kind(const SchemaType& other) const {
    return base == other.base && list == other.list &&
           optional == other.optional &&
           optional_entries == other.optional_entries;
  }
  DISTWRAP_EXPORT std::string text() const;
};

struct SchemaAlias {
  // The sets before and after the call; "*" stands for any.
  std::vector<std::string> before, after;
  bool write = false;
};

struct SchemaParam {
  SchemaType type;
  std::optional<SchemaAlias> alias;
  std::string name;
  bool keyword_only = false;
  // nullptr: the argument has to be given.
  std::shared_ptr<const Value> value;  // the default
  std::string value_text;
};

struct SchemaReturn {
  SchemaType type;
  std::optional<SchemaAlias> alias;
  std::string name;
};

class DISTWRAP_EXPORT Schema {
 public:
  static constexpr size_t kMostParams = 64, kMostCharacters = 4096;

  // Errors: kSchemaParse with the column and what was expected there.
  static absl::StatusOr<Schema> parse(absl::string_view text);
  // The text of the schema, which parse() reads as an equal schema.
  std::string text() const;

  // "dw::add.Tensor", "dw", "Tensor".
  std::string full_name() const;
  std::string name;  // "dw::add"
  std::string overload;
  std::vector<SchemaParam> params;
  std::vector<SchemaReturn> returns;

  // These follow from the marks. Bit i of a mask is parameter i.
  uint64_t written = 0;     // parameters that the operator writes
  uint64_t tensors = 0;     // parameters that are tensors or lists of them
  bool is_mutable = false;  // writes any parameter
  bool is_view = false;     // a result shares memory that it does not write
  bool in_place = false;    // the first parameter is written and returned
  bool out_form = false;    // keyword-only parameters are written and returned
  // For each result, the parameter whose memory it is; -1 for fresh memory.
  std::vector<int> result_of;
};

}  // namespace distwrap

#endif  // DISTWRAP_SCHEMA_H_
