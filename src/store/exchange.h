// One collective exchange of blobs over a store.
//
// Threads: any; each rank calls it once per key.
//
//   auto cards = exchange(store, "world/address", rank, size, my_address,
//                         Deadline::after(absl::Seconds(30)));
//   if (cards.ok()) connect_to((*cards)[peer]);
#ifndef DISTWRAP_SRC_STORE_EXCHANGE_H_
#define DISTWRAP_SRC_STORE_EXCHANGE_H_

#include "distwrap/deadline.h"
#include "distwrap/status.h"
#include "distwrap/store.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <string>
#include <vector>

namespace distwrap::store {

// Every rank gives one blob and gets the blobs of all ranks in rank order. A
// key serves one exchange: a second one under the same key could mix with the
// first, whose slower ranks may not have read yet.
//
// Missing ranks are logged as a warning once per `report_every`. The exchange
// ends for all ranks when the first rank reaches its deadline: that rank and
// the ranks that wait with it get kTimedOut with the missing ranks in `ranks`;
// a rank that comes later gets kRefused. When every rank that came has left, no
// key remains, except two keys that mark a failed exchange.
absl::StatusOr<std::vector<std::string>> exchange(
    Store& store, absl::string_view key, int rank, int size,
    absl::string_view blob, Deadline deadline,
    absl::Duration report_every = absl::Seconds(5));

// For a rank that cannot take part: ends the exchange for all ranks with its
// error. Takes at most 75 ms beyond the deadline.
void give_up_exchange(Store& store, absl::string_view key, int rank, int size,
                      const ErrorInfo& why, Deadline deadline);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_EXCHANGE_H_
