#include "moe/agreement.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// A rank's fault, as it tells the others. `other`: one more rank that has part
// in it.
struct FaultNotice {
  int32_t reason = 0;  // 0: no fault
  int32_t other = -1;
  std::array<char, 120> what = {};
  std::array<char, 40> expected = {}, actual = {};
};

template <size_t kSize>
void put(const std::string& text, std::array<char, kSize>* to) {
  text.copy(to->data(), kSize - 1);
}
template <size_t kSize>
std::string text_of(const std::array<char, kSize>& from) {
  return std::string(from.data(), strnlen(from.data(), kSize - 1));
}

}  // namespace

absl::Status Agreement::tell_bytes(const Fault& fault, size_t item_bytes,
                                   const std::vector<uint8_t>& items,
                                   std::vector<uint8_t>* got) const {
  const int ranks = exchange_.size();
  const size_t each = sizeof(FaultNotice) + item_bytes;
  FaultNotice mine;
  if (fault.found()) {
    mine.reason = static_cast<int32_t>(fault.info().reason);
    if (!fault.info().ranks.empty()) mine.other = fault.info().ranks[0];
    put(fault.info().what, &mine.what);
    put(fault.info().expected, &mine.expected);
    put(fault.info().actual, &mine.actual);
  }
  std::vector<uint8_t> out(at(ranks) * each), in(out.size());
  std::vector<int64_t> counts(at(ranks), static_cast<int64_t>(each)), displs;
  for (size_t r = 0; r < at(ranks); ++r) {
    displs.push_back(static_cast<int64_t>(r * each));
    memcpy(out.data() + r * each, &mine, sizeof mine);
    if (item_bytes > 0)
      memcpy(out.data() + r * each + sizeof mine, items.data() + r * item_bytes,
             item_bytes);
  }
  const absl::StatusOr<Work> met =
      exchange_.all_to_all({in.data(), counts, displs},
                           {out.data(), counts, displs}, kPlanTag, false);
  if (!met.ok()) return met.status();
  if (got != nullptr) got->resize(at(ranks) * item_bytes);
  for (int r = 0; r < ranks; ++r) {
    if (!exchange_.calls(r)) continue;
    FaultNotice head;
    memcpy(&head, in.data() + at(r) * each, sizeof head);
    if (head.reason != 0) {
      ErrorInfo info{.reason = static_cast<Reason>(head.reason),
                     .what = text_of(head.what),
                     .ranks = {r},
                     .expected = text_of(head.expected),
                     .actual = text_of(head.actual),
                     .next_step = "correct the call of that rank"};
      if (r == exchange_.rank() && !fault.info().next_step.empty())
        info.next_step = fault.info().next_step;
      if (head.other >= 0 && head.other != r && head.other < ranks)
        info.ranks.push_back(head.other);
      std::sort(info.ranks.begin(), info.ranks.end());
      return exchange_.error(std::move(info));
    }
    if (item_bytes > 0)
      memcpy(got->data() + at(r) * item_bytes,
             in.data() + at(r) * each + sizeof head, item_bytes);
  }
  return absl::OkStatus();
}

}  // namespace distwrap::moe
