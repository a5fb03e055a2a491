// Types of the program in objects.
#include "distwrap/object.h"
#include "distwrap/status.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace distwrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Point {
  int x = 0;
  friend bool operator==(const Point&, const Point&) = default;
};
struct Unknown {};
struct Touchy {
  std::string text;
};

absl::StatusOr<Point> read_point(absl::string_view bytes) {
  Point point;
  if (!absl::SimpleAtoi(bytes, &point.x))
    return absl::InvalidArgumentError("that is no number");
  return point;
}

void register_all() {
  static const bool kDone = [] {
    EXPECT_TRUE(register_object_type<Point>(
                    "point", [](const Point& p) { return absl::StrCat(p.x); },
                    read_point)
                    .ok());
    EXPECT_TRUE(register_object_type<Touchy>(
                    "touchy",
                    [](const Touchy& t) {
                      if (t.text == "no") throw std::runtime_error("not this");
                      return t.text;
                    },
                    [](absl::string_view bytes) -> absl::StatusOr<Touchy> {
                      if (bytes == "bad") throw 1;
                      return Touchy{std::string(bytes)};
                    })
                    .ok());
    return true;
  }();
  ASSERT_TRUE(kDone);
}

TEST(ObjectTypes, TravelUnderTheirName) {
  register_all();
  const Object object = Object::map({{"at", Object::of(Point{-12})}});
  EXPECT_EQ(object.at("at").if_a<Point>()->x, -12);
  EXPECT_EQ(object.at("at").if_a<Unknown>(), nullptr);
  const absl::StatusOr<std::string> bytes = encode_object(object);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<Object> back = decode_object(*bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_NE(back->at("at").if_a<Point>(), nullptr);
  EXPECT_EQ(back->at("at").if_a<Point>()->x, -12);
  EXPECT_EQ(*back, object);
  EXPECT_EQ(*encode_object(*back), *bytes);
  EXPECT_EQ(object.to_string(), "{\"at\": <point>}");
  // A registered type cannot be a key, because its bytes have no known order.
  EXPECT_EQ(
      error_reason(
          encode_object(Object::map({{Object::of(Point{}), 1}})).status()),
      Reason::kObjectType);
}

TEST(ObjectTypes, UnknownOnesAreNamedWithTheirPath) {
  const Object object = Object::array(
      {1, 2, 3,
       Object::map(
           {{"model", Object::map({{"weights", Object::of(Unknown{})}})}})});
  const absl::Status status = encode_object(object).status();
  EXPECT_EQ(error_reason(status), Reason::kObjectType);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("[3].model.weights"), HasSubstr("Unknown"),
                    HasSubstr("register_object_type")));
  EXPECT_THAT(Object::of(Unknown{}).to_string(), HasSubstr("Unknown"));
  EXPECT_FALSE(Object::of(Unknown{}) == Object::of(Unknown{}));
}

TEST(ObjectTypes, WhatTheirFunctionsRefuseOrThrowIsAnError) {
  register_all();
  absl::Status status =
      encode_object(Object::array({Object::of(Touchy{"no"})})).status();
  EXPECT_EQ(error_reason(status), Reason::kObjectType);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("[0]"), HasSubstr("touchy"), HasSubstr("not this")));
  status = decode_object(*encode_object(Object::of(Touchy{"bad"}))).status();
  EXPECT_EQ(error_reason(status), Reason::kObjectDecode);
  status =
      decode_object(*encode_object(Object::extension("point", "x12"))).status();
  EXPECT_EQ(error_reason(status), Reason::kObjectDecode);
  EXPECT_THAT(std::string(status.message()), HasSubstr("that is no number"));
}

TEST(ObjectTypes, OneNameOneType) {
  register_all();
  const auto write = [](const auto&) { return std::string(); };
  const auto read = [](absl::string_view) { return absl::StatusOr<Unknown>(); };
  for (const std::string& name : {std::string("point"), std::string(),
                                  std::string(256, 'x'), std::string("\xff")}) {
    const absl::Status status =
        register_object_type<Unknown>(name, write, read);
    EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << name;
  }
  EXPECT_FALSE(
      register_object_type<Point>("other point", write, read_point).ok());
}

}  // namespace
}  // namespace distwrap
