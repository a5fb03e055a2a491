// The key-value store of a job, through which ranks find each other.
//
// Threads: any method from any thread; a call that waits delays no other call.
// Ownership: shared by the Session that uses the store and by its maker.
// Deadlines: every call ends by its deadline with kTimedOut; a call that cannot
// reach the store ends with kStoreUnreachable.
// Limits: keys have 1 to 1024 bytes, values at most 64 MiB.
//
//   auto store = distwrap::Store::in_memory();
//   store->set("color", "blue", Deadline::after(absl::Seconds(1)));
//   store->get("color", Deadline::after(absl::Seconds(1)));  // "blue"
#ifndef DISTWRAP_STORE_H_
#define DISTWRAP_STORE_H_

#include "distwrap/deadline.h"
#include "distwrap/export.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap {

class DISTWRAP_EXPORT Store {
 public:
  static constexpr size_t kMaxKeyBytes = 1024;
  static constexpr size_t kMaxValueBytes = size_t{64} << 20;

  // A store within this process, for ranks that are threads.
  static std::shared_ptr<Store> in_memory();
  // A client of the server at `address`, for example "unix:/path/of/socket".
  // Waits until the deadline for the server to appear. Errors:
  // kStoreUnreachable, kAuthFailed (the server runs under another user id).
  static absl::StatusOr<std::shared_ptr<Store>> connect(
      absl::string_view address, Deadline deadline);

  virtual ~Store() = default;

  // Creates the key or replaces its value.
  virtual absl::Status set(absl::string_view key, absl::string_view value,
                           Deadline deadline) = 0;
  // Waits until the key exists.
  virtual absl::StatusOr<std::string> get(absl::string_view key,
                                          Deadline deadline) = 0;
  // Waits until all keys exist. The `expected` field of a kTimedOut lists the
  // keys that are known to be missing, one a line; it is empty when the store
  // did not answer.
  virtual absl::Status wait(const std::vector<std::string>& keys,
                            Deadline deadline) = 0;
  // Waits until all keys exist and returns their values in the order of `keys`.
  // Errors: those of `wait`. A store overrides it when it can do better than
  // one `get` for each key.
  virtual absl::StatusOr<std::vector<std::string>> get_all(
      const std::vector<std::string>& keys, Deadline deadline);
  // Adds to a decimal integer, which counts as 0 when the key does not exist,
  // and returns the new value.
  virtual absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                                      Deadline deadline) = 0;
  // Sets `desired` when the value equals `expected`, where "" also stands for a
  // missing key. Returns the value after the call. The limit of a value holds
  // for both values together.
  virtual absl::StatusOr<std::string> compare_set(absl::string_view key,
                                                  absl::string_view expected,
                                                  absl::string_view desired,
                                                  Deadline deadline) = 0;
  // Deletes the key; returns whether it existed.
  virtual absl::StatusOr<bool> delete_key(absl::string_view key,
                                          Deadline deadline) = 0;

  // The address for messages: "unix:/run/user/0/distwrap-x/store", "in memory".
  virtual std::string address() const = 0;
};

}  // namespace distwrap

#endif  // DISTWRAP_STORE_H_
