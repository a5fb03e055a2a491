#include "facade/object_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

namespace distwrap::facade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ObjectRecord sample() {
  return {.call = ObjectCall::kGather,
          .root = 3,
          .count = 4,
          .largest = 5,
          .total = 5,
          .limit = 100,
          .content = "hello"};
}

TEST(ObjectRecords, StaySmallTogether) {
  EXPECT_EQ(record_size(1), kMostRecord);
  EXPECT_EQ(record_size(32), kMostRecord);
  EXPECT_EQ(record_size(64), 1024u);
  EXPECT_EQ(record_size(16384), kLeastRecord);
}

TEST(ObjectRecords, ComeBack) {
  const std::string bytes = write_record(sample(), 256);
  ASSERT_EQ(bytes.size(), 256u);
  const auto back = read_record(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->call, ObjectCall::kGather);
  EXPECT_EQ(back->root, 3);
  EXPECT_EQ(back->count, 4u);
  EXPECT_EQ(back->largest, 5u);
  EXPECT_EQ(back->total, 5u);
  EXPECT_EQ(back->limit, 100u);
  EXPECT_EQ(back->content, "hello");
}

TEST(ObjectRecords, CarryMessagesUpToTheirSize) {
  ObjectRecord record = sample();
  const std::string message(256 - kRecordHead + 1, 'x');
  record.content = absl::string_view(message).substr(1);
  record.total = record.content.size();
  EXPECT_TRUE(record.inlined(256));
  EXPECT_EQ(read_record(write_record(record, 256))->content, record.content);
  record.content = message;
  record.total = message.size();
  EXPECT_FALSE(record.inlined(256));
  EXPECT_EQ(read_record(write_record(record, 256))->content, "");
}

TEST(ObjectRecords, OtherBytesAreNone) {
  const std::string good = write_record(sample(), 256);
  EXPECT_FALSE(read_record("").has_value());
  EXPECT_FALSE(read_record(absl::string_view(good).substr(0, 47)).has_value());
  EXPECT_FALSE(read_record(std::string(256, '\0')).has_value());
  for (const size_t at : std::initializer_list<size_t>{0, 3, 4, 5, 12}) {
    std::string bad = good;
    bad[at] = '\x7f';
    EXPECT_FALSE(read_record(bad).has_value()) << at;
  }
  std::string bad = good;
  bad[24] = 6;  // largest beyond total
  EXPECT_FALSE(read_record(bad).has_value());
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k)
      bytes[random() % kRecordHead] = static_cast<char>(random());
    const auto record = read_record(bytes);
    if (record.has_value()) {
      ASSERT_LE(record->content.size(), 256u);
    }
  }
}

TEST(ObjectRecords, JudgedByWhatIsWorstFirst) {
  std::vector<std::optional<ObjectRecord>> all(3, sample());
  const std::vector<int> ranks = {0, 1, 2};
  EXPECT_FALSE(judge(all, ranks).has_value());

  all[2]->largest = 101;
  all[2]->total = 101;
  EXPECT_EQ(judge(all, ranks)->reason, Reason::kObjectDecode);
  EXPECT_THAT(judge(all, ranks)->ranks, ElementsAre(2));
  all[2]->largest = all[2]->total = 90;
  all[0]->limit = 80;
  EXPECT_EQ(judge(all, ranks)->expected, "at most 80");

  all[1]->root = 2;
  EXPECT_EQ(judge(all, ranks)->reason, Reason::kCallMismatch);
  EXPECT_THAT(judge(all, ranks)->ranks, ElementsAre(1));
  EXPECT_THAT(judge(all, ranks)->actual, HasSubstr("root 2 on rank 1"));

  all[0].reset();
  EXPECT_EQ(judge(all, ranks)->reason, Reason::kCallMismatch);
  EXPECT_THAT(judge(all, ranks)->ranks, ElementsAre(0));

  all[2]->reason = Reason::kObjectType;
  all[2]->content = "its text";
  EXPECT_EQ(judge(all, ranks)->reason, Reason::kAborted);
  EXPECT_THAT(judge(all, ranks)->ranks, ElementsAre(2));
  EXPECT_THAT(judge(all, ranks)->what, HasSubstr("its text"));
}

}  // namespace
}  // namespace distwrap::facade
