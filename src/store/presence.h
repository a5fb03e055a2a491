// The ranks that are in an exchange, counted in the store: the last to leave
// deletes the keys, and one that gives up tells those that are in it or come
// later.
//
// Threads: each rank calls from one at a time. Ownership: borrows the store.
//
//   Presence presence(store, "world/address", size);
//   if (absl::Status status = presence.enter(deadline); !status.ok()) ...
//   presence.leave(deadline);  or  presence.give_up(status, rank, {},
//   deadline);
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

  // Errors: what a rank that gave up before told, else of the store.
  absl::Status enter(Deadline deadline);
  // What a rank that gave up told; OK when none did, or none can be asked.
  absl::Status check(Deadline deadline);
  // Failures are nobody's: this rank has its result, and keys that stay end
  // with the job.
  void leave(Deadline deadline);
  // Leaves, with why the exchange cannot be completed; one that did not enter
  // may call it too. The first to give up is heard. Wakes the ranks that wait
  // for those in `missing`, or for anybody when it is empty.
  void give_up(const ErrorInfo& why, int rank, const std::vector<int>& missing,
               Deadline deadline);

  const std::vector<std::string>& blobs() const { return blobs_; }
  static std::string blob_text(absl::string_view blob);
  // Why, when the text is not of a blob but of one that gave up.
  static absl::Status error_in(absl::string_view text);
  // Whether `enter` found that somebody had given up.
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
