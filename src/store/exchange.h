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

// Every rank gives one blob, all get all, in rank order. A key serves one
// exchange: a second one under it could mix with the first, whose slower ranks
// may not have read yet.
// Ranks that are missing are logged as a warning once per `report_every`. At
// the deadline of the first rank that waited so long all end: it with
// kTimedOut, `ranks` being the missing ones; those that wait with it likewise;
// who comes later with kRefused. No key is left behind once every rank that
// came has left; of an exchange that failed, two that tell so remain.
absl::StatusOr<std::vector<std::string>> exchange(
    Store& store, absl::string_view key, int rank, int size,
    absl::string_view blob, Deadline deadline,
    absl::Duration report_every = absl::Seconds(5));

// For a rank that cannot take part: the exchange ends for all with its error.
// Takes 75 ms beyond the deadline at most.
void give_up_exchange(Store& store, absl::string_view key, int rank, int size,
                      const ErrorInfo& why, Deadline deadline);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_EXCHANGE_H_
