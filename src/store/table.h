// Keys, values and who waits for them: what the in-memory store and the server
// have in common.
//
// Threads: one at a time; the owner locks. Ownership: a Wait belongs to who
// made it and is cancelled before it goes.
//
//   Table table;
//   Wait wait;
//   wait.keys = {"a", "b"};
//   wait.ready = [&] { ... };        // called inside the set that completes it
//   if (table.start(&wait)) ...      // all are there; `ready` is not called
#ifndef DISTWRAP_SRC_STORE_TABLE_H_
#define DISTWRAP_SRC_STORE_TABLE_H_

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace distwrap::store {

struct Wait {
  std::vector<std::string> keys = {};
  std::function<void()> ready = {};
  // The table's: the key it is parked on, one that is missing.
  size_t at = 0;
  bool parked = false;
};

class Table {
 public:
  void set(absl::string_view key, std::string value);
  // Null when there is none; valid until the next change.
  const std::string* find(absl::string_view key) const;
  // Fails with a plain InvalidArgument when the value is no integer or the sum
  // does not fit.
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta);
  // The value after the call, "" for none.
  std::string compare_set(absl::string_view key, absl::string_view expected,
                          std::string desired);
  bool erase(absl::string_view key);

  // True when all keys exist; else parks the wait. `ready` may not change the
  // table; the wait is no longer parked when it is called.
  bool start(Wait* wait);
  void cancel(Wait* wait);
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  size_t size() const { return values_.size(); }

 private:
  bool advance(Wait* wait);
  void park(Wait* wait);
  void wake(absl::string_view key);

  absl::flat_hash_map<std::string, std::string> values_;
  // Each wait stands under one key that it misses.
  absl::flat_hash_map<std::string, std::vector<Wait*>> parked_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_TABLE_H_
