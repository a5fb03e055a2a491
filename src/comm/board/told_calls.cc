#include "comm/board/told_calls.h"

#include "comm/board/page.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <cstddef>

namespace distwrap::comm {
namespace {

constexpr uint64_t kMost = GroupPage::kEntries;
// More than a host has.
constexpr uint64_t kMostRanks = 4096;

// Words in hexadecimal, one behind the other.
class Words {
 public:
  explicit Words(absl::string_view text) : words_(absl::StrSplit(text, ' ')) {}

  absl::string_view word() {
    good_ = good_ && at_ < words_.size();
    return good_ ? words_[at_++] : absl::string_view();
  }
  uint64_t number(uint64_t most = ~uint64_t{0}) {
    uint64_t value = 0;
    good_ = absl::SimpleHexAtoi(word(), &value) && good_ && value <= most;
    return good_ ? value : 0;
  }
  // Whether all words were there, and no more.
  bool good() const { return good_ && at_ == words_.size(); }

 private:
  const std::vector<absl::string_view> words_;
  size_t at_ = 0;
  bool good_ = true;
};

void append(std::string* text, uint64_t number) {
  absl::StrAppend(text, " ", absl::Hex(number));
}

}  // namespace

std::string ToldCalls::text() const {
  std::string text = host.empty() ? "-" : host;
  append(&text, ranks.size());
  for (const Rank& one : ranks) {
    append(&text, static_cast<uint64_t>(one.rank));
    append(&text, static_cast<uint64_t>(one.process));
    append(&text, one.last);
  }
  append(&text, inside);
  append(&text, static_cast<uint64_t>(since_ns));
  append(&text, calls.size());
  for (const Call& call : calls) {
    for (const uint64_t value : {call.number, call.history, call.what,
                                 static_cast<uint64_t>(call.count)})
      append(&text, value);
    for (const uint64_t value : call.label) append(&text, value);
  }
  append(&text, checkpoints.size());
  for (const Checkpoint& one : checkpoints) {
    append(&text, one.number);
    append(&text, one.history);
  }
  append(&text, counts.size());
  for (const uint32_t count : counts) append(&text, count);
  return text;
}

std::optional<ToldCalls> ToldCalls::read(absl::string_view text) {
  constexpr uint64_t kSigned = INT64_MAX;
  Words words(text);
  ToldCalls told;
  told.host = std::string(words.word());
  for (uint64_t n = words.number(kMostRanks); n > 0; --n) {
    const auto rank = static_cast<int>(words.number(INT32_MAX));
    const auto process = static_cast<int64_t>(words.number(kSigned));
    told.ranks.push_back({rank, process, words.number()});
  }
  told.inside = words.number();
  told.since_ns = static_cast<int64_t>(words.number(kSigned));
  for (uint64_t n = words.number(kMost); n > 0; --n) {
    Call call;
    for (uint64_t* const value : {&call.number, &call.history, &call.what})
      *value = words.number();
    call.count = static_cast<int64_t>(words.number());
    for (uint64_t& value : call.label) value = words.number();
    told.calls.push_back(call);
  }
  for (uint64_t n = words.number(kMost); n > 0; --n) {
    const uint64_t number = words.number();
    told.checkpoints.push_back({number, words.number()});
  }
  for (uint64_t n = words.number(ShownCounts::kWords); n > 0; --n)
    told.counts.push_back(static_cast<uint32_t>(words.number(UINT32_MAX)));
  if (!words.good()) return std::nullopt;
  return told;
}

}  // namespace distwrap::comm
