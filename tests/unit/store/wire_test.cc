#include "store/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;

absl::string_view body_of(const std::string& frame) {
  return absl::string_view(frame).substr(kHeaderBytes);
}

TEST(Wire, RequestComesBack) {
  Request sent{.op = Op::kCompareSet, .timeout_ns = 12, .keys = {"key"}};
  sent.value = std::string("v\0w", 3);
  sent.expected = "e";
  sent.number = -5;
  const std::string frame = encode(sent);
  EXPECT_EQ(decode_header(frame.substr(0, kHeaderBytes)),
            frame.size() - kHeaderBytes);
  const auto got = decode_request(body_of(frame));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->op, Op::kCompareSet);
  EXPECT_EQ(got->timeout_ns, 12);
  EXPECT_THAT(got->keys, ElementsAre("key"));
  EXPECT_EQ(got->value, sent.value);
  EXPECT_EQ(got->expected, "e");
  EXPECT_EQ(got->number, -5);
}

TEST(Wire, ReplyComesBack) {
  const std::string frame = encode(Reply{.answer = Answer::kTimedOut,
                                         .number = 7,
                                         .texts = {"a", ""},
                                         .indices = {0, 3}});
  const auto got = decode_reply(body_of(frame));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->answer, Answer::kTimedOut);
  EXPECT_EQ(got->number, 7);
  EXPECT_THAT(got->texts, ElementsAre("a", ""));
  EXPECT_THAT(got->indices, ElementsAre(0, 3));
}

TEST(Wire, EveryTruncationIsRefused) {
  const std::string request =
      encode(Request{.op = Op::kWait, .keys = {"a", "b"}});
  for (size_t i = 0; i < body_of(request).size(); ++i)
    EXPECT_FALSE(decode_request(body_of(request).substr(0, i)).has_value());
  EXPECT_FALSE(decode_request(std::string(body_of(request)) + "x").has_value());
  const std::string reply = encode(Reply{.texts = {"a"}, .indices = {1}});
  for (size_t i = 0; i < body_of(reply).size(); ++i)
    EXPECT_FALSE(decode_reply(body_of(reply).substr(0, i)).has_value());
}

TEST(Wire, HeadersOutsideTheLimits) {
  EXPECT_FALSE(decode_header("").has_value());
  EXPECT_FALSE(decode_header("abc").has_value());
  EXPECT_FALSE(decode_header(std::string(4, '\0')).has_value());
  EXPECT_FALSE(decode_header(std::string(4, '\xff')).has_value());
}

// A count that exceeds all memory must not be trusted.
TEST(Wire, CountsBeyondTheFrame) {
  std::string body(body_of(encode(Request{.op = Op::kWait, .keys = {"a"}})));
  for (int i = 0; i < 4; ++i) body[static_cast<size_t>(9 + i)] = '\xff';
  EXPECT_FALSE(decode_request(body).has_value());
}

TEST(Wire, ASeriesHasOneNameAndALimit) {
  const auto read = [](const Request& request) {
    return decode_request(body_of(encode(request))).has_value();
  };
  constexpr int64_t kMost = Request::kMostOfSeries;
  for (const Op op : {Op::kWait, Op::kGetAll}) {
    EXPECT_TRUE(read({.op = op, .keys = {"a"}, .number = kMost}));
    EXPECT_FALSE(read({.op = op, .keys = {"a"}, .number = kMost + 1}));
    EXPECT_FALSE(read({.op = op, .keys = {"a"}, .number = -1}));
    EXPECT_FALSE(read({.op = op, .keys = {"a", "b"}, .number = 2}));
    EXPECT_FALSE(read({.op = op, .keys = {}, .number = 2}));
  }
}

TEST(Wire, RandomBodies) {
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) {
    std::string body(random() % 48, '\0');
    for (char& byte : body) byte = static_cast<char>(random() % 5);
    const auto request = decode_request(body);
    if (request.has_value()) {
      EXPECT_EQ(body_of(encode(*request)), body);
    }
    const auto reply = decode_reply(body);
    if (reply.has_value()) {
      EXPECT_EQ(body_of(encode(*reply)), body);
    }
  }
}

}  // namespace
}  // namespace distwrap::store
