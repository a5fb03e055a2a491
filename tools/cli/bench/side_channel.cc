#include "bench/side_channel.h"

#include <absl/strings/cord.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr absl::string_view kAgreed = "distwrap.bench/agreed";

}  // namespace

SideChannel::SideChannel(std::shared_ptr<Store> store, std::string name,
                         int rank, int ranks, absl::Duration timeout)
    : store_(std::move(store)),
      name_(std::move(name)),
      rank_(rank),
      ranks_(ranks),
      timeout_(timeout) {}

std::string SideChannel::key(int64_t turn, int rank) const {
  return absl::StrCat(name_, "/", turn, "/", rank);
}

absl::StatusOr<std::vector<std::string>> SideChannel::exchange(
    absl::string_view mine) {
  if (ranks_ == 1) return std::vector<std::string>{std::string(mine)};
  const Deadline deadline = Deadline::after(timeout_);
  const int64_t turn = turn_++;
  std::vector<std::string> keys;
  keys.reserve(static_cast<size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) keys.push_back(key(turn, rank));
  absl::Status status =
      store_->set(keys[static_cast<size_t>(rank_)], mine, deadline);
  if (!status.ok()) return status;
  auto all = store_->get_all(keys, deadline);
  if (!all.ok()) return all.status();
  // A rank in this turn has read everything of the previous turn.
  if (turn > 0) {
    const auto gone = store_->delete_key(key(turn - 1, rank_), deadline);
    if (!gone.ok()) return gone.status();
  }
  return all;
}

absl::Status SideChannel::barrier() { return exchange("here").status(); }

absl::Status SideChannel::max(std::vector<double>& values) {
  const size_t bytes = values.size() * sizeof(double);
  const auto all = exchange(
      absl::string_view(reinterpret_cast<const char*>(values.data()), bytes));
  if (!all.ok()) return all.status();
  std::vector<double> theirs(values.size());
  for (const std::string& blob : *all) {
    if (blob.size() != bytes) {
      return absl::InternalError("the ranks measured different things");
    }
    if (bytes > 0) std::memcpy(theirs.data(), blob.data(), bytes);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::max(values[i], theirs[i]);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SideChannel::sum(int64_t value) {
  const auto all = exchange(absl::StrCat(value));
  if (!all.ok()) return all.status();
  int64_t total = 0;
  for (const std::string& text : *all) {
    int64_t one = 0;
    if (!absl::SimpleAtoi(text, &one)) {
      return absl::InternalError("the ranks measured different things");
    }
    total += one;
  }
  return total;
}

absl::Status SideChannel::agree(const absl::Status& mine) {
  std::string blob(1, static_cast<char>(mine.code()));
  absl::StrAppend(&blob, mine.message());
  const auto all = exchange(blob);
  if (!all.ok()) return mine.ok() ? all.status() : mine;
  // One rank's error is often the consequence of another's, so all errors are
  // shown, under the code of the first.
  auto code = absl::StatusCode::kOk;
  std::vector<std::string> texts;
  for (const std::string& theirs : *all) {
    if (theirs.empty()) return absl::InternalError("a rank sent no status");
    const auto its = static_cast<absl::StatusCode>(theirs[0]);
    if (its == absl::StatusCode::kOk) continue;
    if (code == absl::StatusCode::kOk) code = its;
    const std::string text = theirs.substr(1);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(text);
    }
  }
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  absl::Status status(code, absl::StrJoin(texts, "\n"));
  status.SetPayload(kAgreed, absl::Cord());
  return status;
}

bool SideChannel::agreed(const absl::Status& status) {
  return status.GetPayload(kAgreed).has_value();
}

}  // namespace distwrap::bench
