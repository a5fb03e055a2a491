// Key-value rendezvous of a job: how ranks find each other.
//
// Threads: any method from any thread; a call that waits delays no other.
// Ownership: shared by the Session that uses it and whoever made it.
// Deadlines: every call ends by its deadline, with kTimedOut; one that cannot
// reach the store ends with kStoreUnreachable.
// Limits: keys 1..1024 bytes, values at most 64 MiB.
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
  // A client of the server at `address`, "unix:/path/of/socket". Waits to the
  // deadline for the server to appear. Errors: kStoreUnreachable, kAuthFailed
  // (the server runs under another user id).
  static absl::StatusOr<std::shared_ptr<Store>> connect(
      absl::string_view address, Deadline deadline);

  virtual ~Store() = default;

  // Creates or replaces.
  virtual absl::Status set(absl::string_view key, absl::string_view value,
                           Deadline deadline) = 0;
  // Waits until the key exists.
  virtual absl::StatusOr<std::string> get(absl::string_view key,
                                          Deadline deadline) = 0;
  // Waits until all keys exist. The time-out's `expected` lists those that are
  // known to be missing, one a line; none when the store did not answer.
  virtual absl::Status wait(const std::vector<std::string>& keys,
                            Deadline deadline) = 0;
  // Waits until all keys exist; their values, in the order of `keys`. Errors as
  // of `wait`. A store with a cheaper way than one `get` a key overrides it.
  virtual absl::StatusOr<std::vector<std::string>> get_all(
      const std::vector<std::string>& keys, Deadline deadline);
  // Adds to a decimal integer, 0 when there is none; the new value.
  virtual absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                                      Deadline deadline) = 0;
  // Sets `desired` when the value equals `expected`, where "" also stands for
  // "there is none". The value after the call. The two values together keep the
  // limit of one.
  virtual absl::StatusOr<std::string> compare_set(absl::string_view key,
                                                  absl::string_view expected,
                                                  absl::string_view desired,
                                                  Deadline deadline) = 0;
  // Whether there was one.
  virtual absl::StatusOr<bool> delete_key(absl::string_view key,
                                          Deadline deadline) = 0;

  // For messages: "unix:/run/user/0/distwrap-x/store", "in memory".
  virtual std::string address() const = 0;
};

}  // namespace distwrap

#endif  // DISTWRAP_STORE_H_
