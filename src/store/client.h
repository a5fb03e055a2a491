// A store behind a server, which can also keep logs.
//
// Threads: any.
#ifndef DISTWRAP_SRC_STORE_CLIENT_H_
#define DISTWRAP_SRC_STORE_CLIENT_H_

#include "distwrap/deadline.h"
#include "distwrap/store.h"
#include "store/store_place.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>

namespace distwrap::store {

class ClientStore : public Store {
 public:
  // Adds a text to a log; returns its number, from 1 on. Errors: as of `set`.
  virtual absl::StatusOr<int64_t> append(absl::string_view log,
                                         absl::string_view text,
                                         Deadline deadline) = 0;
  virtual const StorePlace& place() const = 0;
  // The server is known to be gone: calls that wait and all later ones end with
  // kStoreUnreachable and this cause.
  virtual void give_up(absl::string_view cause) = 0;
};

// As Store::connect. Sets `*hopeless` when a further attempt would end in the
// same way.
absl::StatusOr<std::shared_ptr<ClientStore>> connect_to(StorePlace place,
                                                        Deadline deadline,
                                                        bool* hopeless);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_CLIENT_H_
