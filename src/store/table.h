// Keys, values and waiters: the common part of the in-memory store and the
// server.
//
// Threads: one at a time; the owner locks. Ownership: a Wait belongs to its
// maker and must be cancelled before it is destroyed.
//
//   Table table;
//   Wait wait;
//   wait.keys = {"a", "b"};
//   wait.ready = [&] { ... };        // called inside the set that completes it
//   if (table.start(&wait)) ...      // all keys exist; no call of `ready`
#ifndef DISTWRAP_SRC_STORE_TABLE_H_
#define DISTWRAP_SRC_STORE_TABLE_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace distwrap::store {

struct Wait {
  std::vector<std::string> keys = {};
  std::function<void()> ready = {};
  // Used by the table: the missing key under which the wait is parked.
  size_t at = 0;
  bool parked = false;
};

class Table {
 public:
  void set(absl::string_view key, std::string value);
  // Null when the key does not exist; valid until the next change.
  const std::string* find(absl::string_view key) const;
  // Fails with a plain InvalidArgument when the value is no integer or the sum
  // overflows.
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta);
  // Returns the value after the call, "" when the key does not exist.
  std::string compare_set(absl::string_view key, absl::string_view expected,
                          std::string desired);
  bool erase(absl::string_view key);
  // Adds a text to the log `key`, as key "<key>/<number>"; returns the number,
  // counted from 1. The newest kKeptOfLog texts stay.
  static constexpr int64_t kKeptOfLog = 4096;
  int64_t append(absl::string_view key, std::string value);

  // Returns true when all keys exist; otherwise parks the wait. `ready` must
  // not change the table; the wait is no longer parked when `ready` is called.
  bool start(Wait* wait);
  void cancel(Wait* wait);
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  size_t size() const { return values_.size(); }

 private:
  bool advance(Wait* wait);
  void park(Wait* wait);
  void wake(absl::string_view key);

  // Abseil's maps do not survive an allocation that fails.
  std::map<std::string, std::string, std::less<>> values_;
  // Each wait is stored under one key that it misses.
  std::map<std::string, std::vector<Wait*>, std::less<>> parked_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_TABLE_H_
