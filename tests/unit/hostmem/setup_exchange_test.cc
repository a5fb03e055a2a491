// Rounds of setup messages, and the messages that are refused.
#include "hostmem/setup_exchange.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dw_hostmem {
namespace {

constexpr SetupExchange::Kind kKind = {"test", 0x74657374, 1};

dw_setup_info info_of(int rank) {
  dw_setup_info info = {};
  info.rank = rank;
  info.size = 2;
  info.uid = 7;
  info.epoch = 3;
  return info;
}

// In two rounds each rank tells a number and the sum of all numbers.
class Sum final : public SetupExchange {
 public:
  explicit Sum(const dw_setup_info& info, const Kind& kind = kKind)
      : SetupExchange(kind, info) {
    say_object(info.rank + 1);
  }
  dw_setup_result take() override { return {}; }
  std::string message() const {
    return {static_cast<const char*>(word().data), word().size};
  }

  int sum = 0;

 private:
  int32_t hear(uint32_t round, const Words& words, dw_error* error) override {
    std::vector<int32_t> numbers;
    if (int32_t code = read(words, &numbers, error)) return code;
    for (const int32_t number : numbers) sum += number;
    say_object(sum);
    return round == 0 ? DW_OK : DW_DONE;
  }
};

int32_t step(Sum* sum, const std::vector<std::string>& messages,
             dw_error* error) {
  std::vector<dw_blob> blobs;
  for (const std::string& message : messages)
    blobs.push_back({message.data(), message.size(), nullptr, 0});
  return sum->step(blobs.data(), blobs.size(), error);
}

TEST(BuildingTest, RanksHearEachOtherInRounds) {
  Sum first(info_of(0)), second(info_of(1));
  dw_error error = {};
  for (const int32_t code : {DW_OK, DW_DONE}) {
    const std::vector<std::string> messages = {first.message(),
                                               second.message()};
    EXPECT_EQ(step(&first, messages, &error), code);
    EXPECT_EQ(step(&second, messages, &error), code);
  }
  EXPECT_EQ(first.sum, 1 + 2 + 3 + 3);
  EXPECT_EQ(second.sum, first.sum);
}

// The error of rank 0 for this message of rank 1.
dw_error refusal(const std::string& message) {
  Sum first(info_of(0));
  dw_error error = {};
  EXPECT_EQ(step(&first, {first.message(), message}, &error),
            DW_FAILED_PRECONDITION);
  EXPECT_EQ(error.peer, 1);
  EXPECT_EQ(std::string(error.text).rfind("test: ", 0), 0u) << error.text;
  return error;
}

TEST(BuildingTest, RefusesMessagesThatDoNotFit) {
  const std::string good = Sum(info_of(1)).message();
  for (const std::string& size :
       {std::string(), good.substr(1), good.substr(0, 8), good + "x"})
    EXPECT_EQ(refusal(size).reason, DW_REASON_REFUSED);
  dw_setup_info other = info_of(1);
  other.uid = 8;
  EXPECT_EQ(refusal(Sum(other).message()).reason, DW_REASON_REFUSED);
  EXPECT_EQ(refusal(Sum(info_of(0)).message()).reason, DW_REASON_REFUSED);
  other = info_of(1);
  other.epoch = 4;
  EXPECT_EQ(refusal(Sum(other).message()).reason, DW_REASON_STALE_EPOCH);
  SetupExchange::Kind newer = kKind;
  ++newer.version;
  EXPECT_EQ(refusal(Sum(info_of(1), newer).message()).reason,
            DW_REASON_REFUSED);
  Sum ahead(info_of(1));
  dw_error error = {};
  ASSERT_EQ(step(&ahead, {Sum(info_of(0)).message(), good}, &error), DW_OK);
  EXPECT_EQ(refusal(ahead.message()).reason, DW_REASON_REFUSED);
}

TEST(BuildingTest, RefusesARoundWithoutAllRanks) {
  Sum first(info_of(0));
  dw_error error = {};
  EXPECT_EQ(step(&first, {first.message()}, &error), DW_FAILED_PRECONDITION);
  EXPECT_EQ(error.peer, -1);
}

}  // namespace
}  // namespace dw_hostmem
