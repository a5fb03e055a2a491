// One call on a store: the checks of its arguments and its errors, equal for
// every kind of store.
//
// Threads: a value.
//
//   const StoreCall call("store get", deadline);
//   if (absl::Status status = call.check({key}); !status.ok()) return status;
#ifndef DISTWRAP_SRC_STORE_CALL_H_
#define DISTWRAP_SRC_STORE_CALL_H_

#include "distwrap/deadline.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::store {

class StoreCall {
 public:
  StoreCall(absl::string_view op, Deadline deadline)
      : op_(op), deadline_(deadline), started_ns_(Deadline::now_ns()) {}

  // kInvalidArgument for a key or value outside the limits, kTimedOut when the
  // deadline has already passed; the call then does nothing. The limit of a
  // value holds for both values of a compare_set together.
  absl::Status check(absl::string_view key, absl::string_view value = {},
                     absl::string_view other_value = {}) const;
  absl::Status check(const std::vector<std::string>& keys) const;

  // `missing` lists the keys that no rank has set; empty when they are not
  // known.
  absl::Status timed_out(const std::vector<std::string>& missing,
                         absl::string_view cause = {}) const;
  absl::Status invalid(absl::string_view key, absl::string_view why) const;

  const std::string& op() const { return op_; }
  Deadline deadline() const { return deadline_; }
  absl::Duration elapsed() const;
  // The time limit for the error; zero for an infinite one, which errors do not
  // show.
  absl::Duration limit() const;

 private:
  absl::Status check_key(absl::string_view key) const;

  std::string op_;
  Deadline deadline_;
  int64_t started_ns_;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CALL_H_
