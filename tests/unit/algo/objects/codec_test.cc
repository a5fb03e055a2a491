// The bytes of objects: those of RFC 8949's examples where they exist, and
// bytes that must not be accepted as an object.
#include "distwrap/object.h"
#include "distwrap/status.h"
#include "unit/algo/objects/random_object.h"

#include <absl/strings/escaping.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace distwrap {
namespace {

using ::distwrap::testing::every_kind;
using ::distwrap::testing::from_hex;
using ::testing::HasSubstr;

// An item with the head for its size.
std::string with_head(absl::string_view item) {
  std::string bytes("DWOB\1\0\0\0", 8);
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<char>(item.size() >> (8 * i) & 0xff));
  bytes.append(item.data(), item.size());
  return bytes;
}

void expect_refused(absl::string_view bytes, absl::string_view why = "") {
  const absl::StatusOr<Object> object = decode_object(bytes);
  ASSERT_FALSE(object.ok())
      << absl::BytesToHexString(bytes) << " was taken for " << *object;
  EXPECT_EQ(error_reason(object.status()), Reason::kObjectDecode);
  EXPECT_EQ(object.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(object.status().message()), HasSubstr("at byte "));
  EXPECT_THAT(std::string(object.status().message()),
              HasSubstr(std::string(why)));
}

struct Golden {
  const char* hex;
  Object object;
};

std::vector<Golden> rfc_examples() {
  const auto big = [](bool negative) {
    return Object::integer({negative, std::string("\1\0\0\0\0\0\0\0\0", 9)});
  };
  Object::Items to_25;
  for (int i = 1; i <= 25; ++i) to_25.emplace_back(i);
  return {
      {"00", 0},
      {"01", 1},
      {"0a", 10},
      {"17", 23},
      {"1818", 24},
      {"1819", 25},
      {"1864", 100},
      {"1903e8", 1000},
      {"1a000f4240", 1000000},
      {"1b000000e8d4a51000", 1000000000000},
      {"1bffffffffffffffff", std::numeric_limits<uint64_t>::max()},
      {"c249010000000000000000", big(false)},
      {"3bffffffffffffffff", big(true)},
      {"c349010000000000000000",
       Object::integer({true, std::string("\1\0\0\0\0\0\0\0\1", 9)})},
      {"20", -1},
      {"29", -10},
      {"3863", -100},
      {"3903e7", -1000},
      {"3b7fffffffffffffff", std::numeric_limits<int64_t>::min()},
      {"fb3ff199999999999a", 1.1},
      {"fb7e37e43c8800759c", 1.0e+300},
      {"fbc010666666666666", -4.1},
      {"fb7ff0000000000000", std::numeric_limits<double>::infinity()},
      {"f4", false},
      {"f5", true},
      {"f6", nullptr},
      {"40", Object::bytes("")},
      {"4401020304", Object::bytes("\1\2\3\4")},
      {"60", ""},
      {"6161", "a"},
      {"6449455446", "IETF"},
      {"62225c", "\"\\"},
      {"62c3bc", "\u00fc"},
      {"63e6b0b4", "\u6c34"},
      {"64f0908591", "\U00010151"},
      {"80", Object::array({})},
      {"83010203", Object::array({1, 2, 3})},
      {"8301820203820405",
       Object::array({1, Object::array({2, 3}), Object::array({4, 5})})},
      {"98190102030405060708090a0b0c0d0e0f101112131415161718181819",
       Object::array(to_25)},
      {"a0", Object::map({})},
      {"a201020304", Object::map({{1, 2}, {3, 4}})},
      {"a26161016162820203",
       Object::map({{"a", 1}, {"b", Object::array({2, 3})}})},
      {"826161a161626163", Object::array({"a", Object::map({{"b", "c"}})})},
      {"a56161614161626142616361436164614461656145",
       Object::map(
           {{"a", "A"}, {"b", "B"}, {"c", "C"}, {"d", "D"}, {"e", "E"}})},
  };
}

std::vector<Golden> tagged_examples() {
  return {
      {"d99c4080", Object::tuple({})},
      {"d99c40820102", Object::tuple({1, 2})},
      {"a1d99c4081616101", Object::map({{Object::tuple({"a"}), 1}})},
      // f32 of shape [2]; two dimensions with no elements; 12 bits.
      {"d99c41 85 02 1820 01 81 02 48 0000803f00000040",
       Object::tensor(
           {.shape = {2}, .bytes = std::string("\0\0\x80\x3f\0\0\0\x40", 8)})},
      {"d99c41 85 00 08 02 82 00 03 40",
       Object::tensor({.code = 0, .bits = 8, .lanes = 2, .shape = {0, 3}})},
      {"d99c41 85 01 04 01 81 03 42 2103",
       Object::tensor({.code = 1, .bits = 4, .shape = {3}, .bytes = "\x21\3"})},
      {"d99c41 85 01 08 01 80 41 07",
       Object::tensor({.code = 1, .bits = 8, .bytes = "\7"})},
      {"d99c42 82 61 70 42 7879", Object::extension("p", "xy")},
  };
}

TEST(ObjectBytes, AreThoseOfTheStandardAndOfTheTags) {
  std::vector<Golden> all = rfc_examples();
  for (Golden& golden : tagged_examples()) all.push_back(std::move(golden));
  for (const Golden& golden : all) {
    SCOPED_TRACE(golden.hex);
    const std::string expected = with_head(from_hex(golden.hex));
    const absl::StatusOr<std::string> bytes = encode_object(golden.object);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(absl::BytesToHexString(*bytes), absl::BytesToHexString(expected));
    const absl::StatusOr<Object> object = decode_object(expected);
    ASSERT_TRUE(object.ok()) << object.status();
    EXPECT_EQ(*object, golden.object);
  }
}

TEST(ObjectBytes, OrderOfMapsStays) {
  const Object map = Object::map({{"b", 1}, {"a", 2}});
  EXPECT_EQ(decode_object(*encode_object(map))->to_string(), map.to_string());
}

TEST(ObjectBytes, OtherItemsAreRefused) {
  struct Case {
    const char *hex, *why;
  };
  const Case cases[] = {
      {"", "end in the middle"},
      {"f7", "undefined"},
      {"f0", "do not begin"},
      {"f818", "do not begin"},
      {"f8ff", "do not begin"},
      {"f90000", "float"},
      {"fa47c35000", "float"},
      {"ff", "indefinite"},
      {"9fff", "indefinite"},
      {"5f42010243030405ff", "indefinite"},
      {"7f657374726561646d696e67ff", "indefinite"},
      {"bf61610161629f0203ffff", "indefinite"},
      {"c074323031332d30332d32315432303a30343a30305a", "tag 0"},
      {"c11a514b67b0", "tag 1"},
      {"d9d9f700", "tag 55799"},
      {"1c", "do not begin"},
      {"fc", "do not begin"},
      // Longer than necessary.
      {"1817", "shortest"},
      {"190018", "shortest"},
      {"1a00000001", "shortest"},
      {"1b0000000000000001", "shortest"},
      {"3800", "shortest"},
      {"580161", "shortest"},
      {"780161", "shortest"},
      {"980100", "shortest"},
      {"b8010000", "shortest"},
      {"da00009c4080", "shortest"},
      {"c24101", "shortest"},
      {"c248ffffffffffffffff", "shortest"},
      {"c24a00010000000000000000", "shortest"},
      // Text that is no UTF-8.
      {"61ff", "UTF-8"},
      {"62c080", "UTF-8"},
      {"63eda080", "UTF-8"},
      {"64f4908080", "UTF-8"},
      {"61c3", "UTF-8"},
      // Counts beyond the bytes, by much and by little.
      {"9b7fffffffffffffff", "more items than"},
      {"9bffffffffffffffff", "more items than"},
      {"bbffffffffffffffff", "more items than"},
      {"bb8000000000000000", "more items than"},
      {"8300 01", "more items than"},
      {"a2 00 01 02", "more items than"},
      {"82 81 00", "more items than"},
      {"5bffffffffffffffff", "end in the middle"},
      {"4401", "end in the middle"},
      {"7a00000002 61", "end in the middle"},
      {"19 03", "end in the middle"},
      // More than one object.
      {"0000", "follow"},
      {"8000", "follow"},
      // Keys.
      {"a2 6161 01 6161 02", "twice"},
      {"a2 01 01 01 01", "twice"},
      {"a3 d99c408101 00 f6 00 d99c408101 00", "twice"},
      {"a1 80 01", "key"},
      {"a1 a0 01", "key"},
      {"a1 d99c4081 80 01", "key"},
      {"a1 d99c42 82 61 70 40 01", "key"},
      // Tags around other kinds.
      {"c2 00", "integer"},
      {"c2 60", "integer"},
      {"c2", "end in the middle"},
      {"d99c40 00", "tuple"},
      {"d99c40 a0", "tuple"},
      {"d99c41 80", "five"},
      {"d99c41 00", "tensor"},
      {"d99c42 80", "two parts"},
      {"d99c42 82 00 40", "name"},
      {"d99c42 82 60 40", "name"},
      {"d99c42 82 6170 00", "bytes"},
      {"d99c42 82 61ff 40", "name"},
      // Tensors that contradict themselves.
      {"d99c41 85 02 1820 01 81 02 47 0000803f000000", "fit"},
      {"d99c41 85 02 1820 01 81 03 48 0000803f00000040", "fit"},
      {"d99c41 85 02 00 01 81 02 40", "fit"},
      {"d99c41 85 02 08 00 81 02 42 0000", "fit"},
      {"d99c41 85 02 08 01 81 20 40", "number"},
      {"d99c41 85 190100 08 01 80 41 00", "too large"},
      {"d99c41 85 02 190100 01 80 41 00", "too large"},
      {"d99c41 85 02 08 1a00010000 80 41 00", "too large"},
      {"d99c41 85 02 08 01 81 1b8000000000000000 40", "too large"},
      {"d99c41 85 02 08 01 82 1b7fffffffffffffff 1b7fffffffffffffff 40", "fit"},
      {"d99c41 85 02 08 01 9b7fffffffffffffff 40", "shape"},
      {"d99c41 85 02 08 01 8a 00 00", "shape"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.hex);
    expect_refused(with_head(from_hex(c.hex)), c.why);
  }
}

TEST(ObjectBytes, HeadsAreChecked) {
  const std::string good = with_head(from_hex("00"));
  ASSERT_TRUE(decode_object(good).ok());
  for (size_t at = 0; at < 16; ++at) {
    SCOPED_TRACE(at);
    for (const char flip : {'\1', '\x80'}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      expect_refused(bad);
    }
  }
  expect_refused("", "head");
  expect_refused(good + good, "follow");
  expect_refused(good.substr(0, 8) + std::string(8, '\xff') + "\0",
                 "more than");
}

TEST(ObjectBytes, EveryTruncationIsRefused) {
  const absl::StatusOr<std::string> bytes = encode_object(every_kind());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ASSERT_EQ(*decode_object(*bytes), every_kind());
  const absl::string_view item = absl::string_view(*bytes).substr(16);
  for (size_t size = 0; size < bytes->size(); ++size)
    expect_refused(absl::string_view(*bytes).substr(0, size));
  // A cut item is also refused when the head agrees with its length.
  for (size_t size = 0; size < item.size(); ++size)
    expect_refused(with_head(item.substr(0, size)));
  expect_refused(with_head(std::string(item) + '\0'), "follow");
}

Object nested(int depth, const Object& inner) {
  Object object = inner;
  for (int i = 0; i < depth; ++i)
    object = i % 3 == 0   ? Object::array({0, object})
             : i % 3 == 1 ? Object::tuple({object})
                          : Object::map({{"k", object}});
  return object;
}

TEST(ObjectBytes, NestTo64) {
  const Object deepest = nested(64, 1);
  const absl::StatusOr<std::string> bytes = encode_object(deepest);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*decode_object(*bytes), deepest);

  const absl::Status status = encode_object(nested(65, 1)).status();
  EXPECT_EQ(error_reason(status), Reason::kObjectType);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[0][1].k[0][1].k"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("64 deep"));
  expect_refused(with_head("\x81" + bytes->substr(16)), "64 deep");
  expect_refused(with_head(std::string(65, '\x81') + '\0'), "64 deep");
  expect_refused(with_head(std::string(100000, '\x81') + '\0'), "64 deep");
  expect_refused(with_head(std::string(100000, '\xc2')), "integer");
  EXPECT_TRUE(decode_object(with_head(std::string(64, '\x81') + '\0')).ok());
  // Empty containers count, and so do keys.
  expect_refused(with_head(std::string(64, '\x81') + '\x80'), "64 deep");
  Object key(1);
  for (int i = 0; i < 64; ++i) key = Object::tuple({key});
  EXPECT_TRUE(encode_object(key).ok());
  EXPECT_FALSE(encode_object(Object::map({{key, 1}})).ok());
}

TEST(ObjectBytes, SizeIsBoundedOnBothSides) {
  const Object object = Object::array({Object::bytes(std::string(100, 'x'))});
  const std::string bytes = *encode_object(object);
  ASSERT_EQ(bytes.size(), 16u + 1 + 2 + 100);
  EXPECT_TRUE(encode_object(object, bytes.size()).ok());
  EXPECT_TRUE(decode_object(bytes, bytes.size()).ok());
  for (const uint64_t less :
       {bytes.size() - 1, size_t{50}, size_t{16}, size_t{1}, size_t{0}}) {
    const absl::Status status = encode_object(object, less).status();
    EXPECT_EQ(error_reason(status), Reason::kObjectType) << less;
    EXPECT_THAT(std::string(status.message()), HasSubstr("more than the "));
    EXPECT_EQ(error_reason(decode_object(bytes, less).status()),
              Reason::kObjectDecode)
        << less;
  }
}

TEST(ObjectBytes, WhatCannotBeWrittenIsNamedByItsPath) {
  struct Case {
    Object object;
    const char *path, *why;
  };
  const Case cases[] = {
      {"\xff", "the object", "UTF-8"},
      {Object::array({1, "\xc3"}), "[1]", "UTF-8"},
      {Object::map({{"a b", Object::array({"\xff"})}}), "[\"a b\"][0]",
       "UTF-8"},
      {Object::map({{"\xff", 1}}), "[\"\\xff\"]", "UTF-8"},
      {Object::map({{7, Object::tuple({nullptr, "\xff"})}}), "[7][1]", "UTF-8"},
      {Object::map({{"a", 1}, {"b", 2}, {"a", 3}}), ".a", "twice"},
      {Object::map({{Object::array({1}), 1}}), "[[1]]", "key"},
      {Object::map({{Object::tuple({Object::map({})}), 1}}), "[({},)]", "key"},
      {Object::tensor({.shape = {2}, .bytes = "1234"}), "the object", "tensor"},
      {Object::tensor({.bits = 0}), "the object", "tensor"},
      {Object::tensor({.shape = {-1}, .bytes = ""}), "the object", "tensor"},
      {Object::extension("", "x"), "the object", "name"},
      {Object::extension(std::string(256, 'x'), "x"), "the object", "name"},
      {Object::extension("\xff", "x"), "the object", "name"},
  };
  for (const Case& c : cases) {
    const absl::Status status = encode_object(c.object).status();
    EXPECT_EQ(error_reason(status), Reason::kObjectType) << c.object;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string("cannot encode ") + c.path + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace distwrap
