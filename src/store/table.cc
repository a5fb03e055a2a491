#include "store/table.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distwrap::store {

void Table::set(absl::string_view key, std::string value) {
  if (const auto found = values_.find(key); found != values_.end()) {
    found->second = std::move(value);
    return;
  }
  values_.emplace(std::string(key), std::move(value));
  wake(key);
}

const std::string* Table::find(absl::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

absl::StatusOr<int64_t> Table::add(absl::string_view key, int64_t delta) {
  int64_t value = 0;
  const std::string* const old = find(key);
  if (old != nullptr && !absl::SimpleAtoi(*old, &value))
    return absl::InvalidArgumentError("the value is not a decimal integer");
  if (__builtin_add_overflow(value, delta, &value))
    return absl::InvalidArgumentError("the sum does not fit in 64 bits");
  set(key, absl::StrCat(value));
  return value;
}

std::string Table::compare_set(absl::string_view key,
                               absl::string_view expected,
                               std::string desired) {
  const std::string* const old = find(key);
  if ((old == nullptr ? absl::string_view() : *old) != expected)
    return old == nullptr ? std::string() : *old;
  set(key, desired);
  return desired;
}

int64_t Table::append(absl::string_view key, std::string value) {
  const std::string count = absl::StrCat(key, "/count");
  // Nobody else writes the count, so it is a number.
  const int64_t number = add(count, 1).value_or(0);
  set(absl::StrCat(key, "/", number), std::move(value));
  erase(absl::StrCat(key, "/", number - kKeptOfLog));
  return number;
}

bool Table::erase(absl::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  values_.erase(found);
  return true;
}

// Moves to the next missing key; true when none is missing. Keys that were
// passed may have been deleted since, so the search starts again.
bool Table::advance(Wait* wait) {
  const auto is_missing = [this](const std::string& key) {
    return find(key) == nullptr;
  };
  const auto begin = wait->keys.begin();
  auto next = std::find_if(begin + static_cast<std::ptrdiff_t>(wait->at),
                           wait->keys.end(), is_missing);
  if (next == wait->keys.end() && wait->at != 0)
    next = std::find_if(begin, wait->keys.end(), is_missing);
  wait->at = static_cast<size_t>(next - begin);
  return next == wait->keys.end();
}

void Table::park(Wait* wait) {
  parked_[wait->keys[wait->at]].push_back(wait);
  wait->parked = true;
}

bool Table::start(Wait* wait) {
  wait->at = 0;
  if (advance(wait)) return true;
  park(wait);
  return false;
}

void Table::cancel(Wait* wait) {
  if (!wait->parked) return;
  wait->parked = false;
  const auto found = parked_.find(wait->keys[wait->at]);
  std::vector<Wait*>& waits = found->second;
  waits.erase(std::find(waits.begin(), waits.end(), wait));
  if (waits.empty()) parked_.erase(found);
}

void Table::wake(absl::string_view key) {
  const auto found = parked_.find(key);
  if (found == parked_.end()) return;
  const std::vector<Wait*> waits = std::move(found->second);
  parked_.erase(found);
  for (Wait* wait : waits) {
    wait->parked = false;
    if (advance(wait))
      wait->ready();
    else
      park(wait);
  }
}

std::vector<std::string> Table::missing(
    const std::vector<std::string>& keys) const {
  std::vector<std::string> result;
  for (const std::string& key : keys)
    if (find(key) == nullptr) result.push_back(key);
  return result;
}

}  // namespace distwrap::store
