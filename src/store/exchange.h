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
// the deadline: kTimedOut, `ranks` being the missing ones. No key is left
// behind once every rank that came has left, after errors too.
absl::StatusOr<std::vector<std::string>> exchange(
    Store& store, absl::string_view key, int rank, int size,
    absl::string_view blob, Deadline deadline,
    absl::Duration report_every = absl::Seconds(5));

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_EXCHANGE_H_
