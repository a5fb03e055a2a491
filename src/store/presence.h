// The ranks inside an exchange, counted in the store. The last rank to leave
// deletes the keys; a rank that gives up tells the ranks that are inside or
// come later.
//
// Threads: each rank calls from one thread at a time. Ownership: borrows the
// store.
//
//   Presence presence(store, "world/address", size);
//   if (absl::Status status = presence.enter(deadline); !status.ok()) ...
//   presence.leave(deadline);
//   // or presence.give_up(status, rank, {}, deadline);
#ifndef DISTWRAP_SRC_STORE_PRESENCE_H_
#define DISTWRAP_SRC_STORE_PRESENCE_H_

#include "distwrap/deadline.h"
#include "distwrap/status.h"
#include "distwrap/store.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::store {

class Presence {
 public:
  Presence(Store& store, absl::string_view key, int size);

  // Errors: the error of a rank that gave up before, or the store's.
  absl::Status enter(Deadline deadline);
  // The error of a rank that gave up; OK when none did or the store does not
  // answer.
  absl::Status check(Deadline deadline);
  // Leaves. A failure is ignored: this rank has its result, and remaining keys
  // go with the job.
  void leave(Deadline deadline);
  // Leaves and records why the exchange cannot be completed; a rank that did
  // not enter may call it, too. The first record counts. Wakes the ranks that
  // wait for those in `missing`, or all ranks when it is empty.
  void give_up(const ErrorInfo& why, int rank, const std::vector<int>& missing,
               Deadline deadline);

  const std::vector<std::string>& blobs() const { return blobs_; }
  static std::string blob_text(absl::string_view blob);
  // The error in a text that is not a blob but the record of a rank that gave
  // up.
  static absl::Status error_in(absl::string_view text);
  // Whether `enter` found that a rank had given up.
  bool is_over() const { return is_over_; }

 private:
  absl::Status told(Deadline deadline);
  void delete_if_last(int64_t count, Deadline deadline);

  Store& store_;
  const std::string present_, over_;
  std::vector<std::string> blobs_;
  bool entered_ = false, is_over_ = false;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_PRESENCE_H_
