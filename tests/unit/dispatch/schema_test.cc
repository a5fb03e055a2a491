// The parser of schemas.
#include "distwrap/schema.h"

#include "distwrap/registration.h"
#include "distwrap/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap {
namespace {

using ::testing::HasSubstr;

TEST(Schemas, ReadWhatTheyPrint) {
  for (const char* text : {
           "dw::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> "
           "Tensor",
           "dw::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
           "dw::select(Tensor(a) self, int dim, int index) -> Tensor(a)",
           "dw::split(Tensor(a -> *) self, int[] sizes, int dim=0) -> "
           "Tensor(a)[]",
           "dw::sum.out(Tensor self, int[1]? dim=None, *, Tensor(a!) out) -> "
           "Tensor(a!)",
           "t::none() -> ()",
           "t::two(Tensor?[] a, float[]? b=None) -> (Tensor x, int y)",
           "t::all(str s=\"a b\", bool b=True, Device d=cpu, ScalarType "
           "t=bf16, float f=1e-05, int[2] n=3, Generator? g=None) -> str",
       }) {
    const absl::StatusOr<Schema> schema = Schema::parse(text);
    ASSERT_TRUE(schema.ok()) << schema.status();
    EXPECT_EQ(schema->text(), text);
    EXPECT_EQ(Schema::parse(schema->text())->text(), text);
  }
  for (const dispatch::OpHandle& op : dispatch::operators()) {
    const auto schema = op.schema();
    ASSERT_TRUE(schema.ok());
    EXPECT_EQ(Schema::parse((*schema)->text())->text(), (*schema)->text());
  }
}

TEST(Schemas, DeriveWhatIsWrittenAndWhatIsAView) {
  const Schema in_place =
      *Schema::parse("t::f_(Tensor(a!) self, Tensor x) -> Tensor(a!)");
  EXPECT_TRUE(in_place.is_mutable);
  EXPECT_TRUE(in_place.in_place);
  EXPECT_FALSE(in_place.is_view);
  EXPECT_EQ(in_place.written, 1U);
  EXPECT_EQ(in_place.tensors, 3U);
  const Schema view =
      *Schema::parse("t::v(int i, Tensor(a -> *) x) -> Tensor(a)[]");
  EXPECT_TRUE(view.is_view);
  EXPECT_FALSE(view.is_mutable);
  EXPECT_EQ(view.result_of, std::vector<int>{1});
  const Schema plain = *Schema::parse("t::p(Tensor x) -> Tensor");
  EXPECT_EQ(plain.result_of, std::vector<int>{-1});
}

struct Wrong {
  const char* text;
  const char* says;
};

TEST(Schemas, SayTheColumnAndWhatWasExpected) {
  for (const Wrong& wrong : std::vector<Wrong>{
           {"", "column 1"},
           {"add(Tensor x) -> Tensor", "column 4"},
           {"t::add Tensor x) -> Tensor", "expected '('"},
           {"t::add(Tenser x) -> Tensor", "a type: Tensor"},
           {"t::add(Tensor) -> Tensor", "the name of the parameter"},
           {"t::add(Tensor x, *) -> Tensor", "a parameter after '*'"},
           {"t::add(Tensor x, *, *, int y) -> Tensor", "one '*' only"},
           {"t::add(Tensor x, Tensor x) -> Tensor", "a name of its own"},
           {"t::add(int(a!) x) -> Tensor", "a mark on Tensor only"},
           {"t::add(Tensor x) -> Tensor(a)", "mark that a parameter has"},
           {"t::add(int x=1.5) -> Tensor", "a value of int"},
           {"t::add(int x=None) -> Tensor", "a value of int"},
           {"t::add(int[0] x) -> Tensor", "a length from 1 to 64"},
           {"t::add(str s=\"x) -> Tensor", "the end of the text"},
           {"t::add(Tensor x) -> Tensor more x", "the end of the schema"},
       }) {
    const absl::StatusOr<Schema> schema = Schema::parse(wrong.text);
    ASSERT_FALSE(schema.ok()) << wrong.text;
    EXPECT_EQ(error_reason(schema.status()), Reason::kSchemaParse);
    EXPECT_THAT(std::string(schema.status().message()), HasSubstr(wrong.says))
        << wrong.text;
  }
  EXPECT_FALSE(Schema::parse(std::string(5000, 'a')).ok());
}

TEST(Schemas, CutAnywhereAreRefused) {
  const std::string whole =
      "dw::f.o(Tensor(a!) x, int[2]? d=None, *, Scalar s=1.5) -> Tensor(a!)";
  ASSERT_TRUE(Schema::parse(whole).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    // "-> Tensor" alone is whole, if another schema.
    const bool shorter = length == whole.size() - 4;
    EXPECT_EQ(Schema::parse(whole.substr(0, length)).ok(), shorter) << length;
  }
}

}  // namespace
}  // namespace distwrap
