// The store through which ranks meet.
#include "distwrap/store.h"

#include "capi/entry.h"
#include "distwrap/c.h"
#include "store/interrupt.h"

#include <absl/strings/string_view.h>

#include <optional>
#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

// Runs `f(store, deadline)` in the frame of a C function.
template <class F>
int32_t with_store(const char* call, distwrap_store store, int64_t timeout,
                   distwrap_error* error, const F& f) {
  return entry(call, error, [&]() -> absl::Status {
    const auto found = held(call, store);
    if (!found.ok()) return found.status();
    return f(***found, Deadline::after(duration_of(timeout)));
  });
}

bool is_there(const distwrap_bytes* bytes) {
  return bytes != nullptr && (bytes->data != nullptr || bytes->size == 0);
}

absl::string_view view_of(const distwrap_bytes& bytes) {
  return {static_cast<const char*>(bytes.data), bytes.size};
}

absl::StatusOr<List> keys_of(const char* call, const char* const* keys,
                             uint64_t count) {
  if (keys == nullptr && count != 0) return refuse_null(call, "keys");
  List list;
  for (uint64_t i = 0; i < count; ++i) {
    if (keys[i] == nullptr) return refuse_null(call, "a key");
    list.emplace_back(keys[i]);
  }
  return list;
}

// The descriptor that ends this thread's waits for stores.
thread_local std::optional<store::Interrupt> interrupt;

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::Deadline;
using distwrap::Store;

int32_t distwrap_store_in_memory(distwrap_store* store, distwrap_error* error) {
  constexpr const char* kCall = "store_in_memory";
  return entry(kCall, error, [&]() -> absl::Status {
    if (store == nullptr) return refuse_null(kCall, "store");
    *store = nullptr;
    return hand_out(kCall, Store::in_memory(), store);
  });
}

int32_t distwrap_store_connect(const char* address, int64_t timeout,
                               distwrap_store* store, distwrap_error* error) {
  constexpr const char* kCall = "store_connect";
  return entry(kCall, error, [&]() -> absl::Status {
    if (store == nullptr) return refuse_null(kCall, "store");
    *store = nullptr;
    if (address == nullptr) return refuse_null(kCall, "address");
    auto made = Store::connect(address, Deadline::after(duration_of(timeout)));
    if (!made.ok()) return made.status();
    return hand_out(kCall, *std::move(made), store);
  });
}

int32_t distwrap_store_interrupt_by(int32_t fd, distwrap_error* error) {
  return entry("store_interrupt_by", error, [&]() -> absl::Status {
    interrupt.reset();
    if (fd >= 0)
      interrupt.emplace(
          fd, distwrap::store::Interrupt::Words{"the call", "call again"});
    return absl::OkStatus();
  });
}

int32_t distwrap_store_free(distwrap_store store) { return free_handle(store); }

int32_t distwrap_store_set(distwrap_store store, const char* key,
                           const distwrap_bytes* value, int64_t timeout,
                           distwrap_error* error) {
  return with_store("store_set", store, timeout, error,
                    [&](Store& s, Deadline deadline) {
                      if (key == nullptr)
                        return refuse_null("store_set", "key");
                      if (!is_there(value))
                        return refuse_null("store_set", "value");
                      return s.set(key, view_of(*value), deadline);
                    });
}

int32_t distwrap_store_get(distwrap_store store, const char* const* keys,
                           uint64_t count, int64_t timeout, distwrap_list* list,
                           distwrap_error* error) {
  constexpr const char* kCall = "store_get";
  return with_store(kCall, store, timeout, error,
                    [&](Store& s, Deadline deadline) -> absl::Status {
                      if (list == nullptr) return refuse_null(kCall, "list");
                      *list = nullptr;
                      const auto names = keys_of(kCall, keys, count);
                      if (!names.ok()) return names.status();
                      auto values = s.get_all(*names, deadline);
                      if (!values.ok()) return values.status();
                      return hand_out(kCall, *std::move(values), list);
                    });
}

int32_t distwrap_store_wait(distwrap_store store, const char* const* keys,
                            uint64_t count, int64_t timeout,
                            distwrap_error* error) {
  return with_store("store_wait", store, timeout, error,
                    [&](Store& s, Deadline deadline) -> absl::Status {
                      const auto names = keys_of("store_wait", keys, count);
                      if (!names.ok()) return names.status();
                      return s.wait(*names, deadline);
                    });
}

int32_t distwrap_store_add(distwrap_store store, const char* key, int64_t delta,
                           int64_t timeout, int64_t* sum,
                           distwrap_error* error) {
  return with_store("store_add", store, timeout, error,
                    [&](Store& s, Deadline deadline) -> absl::Status {
                      if (key == nullptr)
                        return refuse_null("store_add", "key");
                      const auto added = s.add(key, delta, deadline);
                      if (added.ok() && sum != nullptr) *sum = *added;
                      return added.status();
                    });
}

int32_t distwrap_store_compare_set(distwrap_store store, const char* key,
                                   const distwrap_bytes* expected,
                                   const distwrap_bytes* desired,
                                   int64_t timeout, distwrap_list* list,
                                   distwrap_error* error) {
  constexpr const char* kCall = "store_compare_set";
  return with_store(kCall, store, timeout, error,
                    [&](Store& s, Deadline deadline) -> absl::Status {
                      if (list != nullptr) *list = nullptr;
                      if (key == nullptr) return refuse_null(kCall, "key");
                      if (!is_there(expected))
                        return refuse_null(kCall, "expected");
                      if (!is_there(desired))
                        return refuse_null(kCall, "desired");
                      auto value = s.compare_set(key, view_of(*expected),
                                                 view_of(*desired), deadline);
                      if (!value.ok() || list == nullptr) return value.status();
                      return hand_out(kCall, List{*std::move(value)}, list);
                    });
}

int32_t distwrap_store_delete_key(distwrap_store store, const char* key,
                                  int64_t timeout, int32_t* existed,
                                  distwrap_error* error) {
  constexpr const char* kCall = "store_delete_key";
  return with_store(kCall, store, timeout, error,
                    [&](Store& s, Deadline deadline) -> absl::Status {
                      if (key == nullptr) return refuse_null(kCall, "key");
                      const auto was = s.delete_key(key, deadline);
                      if (was.ok() && existed != nullptr)
                        *existed = *was ? 1 : 0;
                      return was.status();
                    });
}

int32_t distwrap_store_address(distwrap_store store, distwrap_list* list,
                               distwrap_error* error) {
  constexpr const char* kCall = "store_address";
  return with_store(kCall, store, DW_FOREVER, error,
                    [&](Store& s, Deadline) -> absl::Status {
                      if (list == nullptr) return refuse_null(kCall, "list");
                      *list = nullptr;
                      return hand_out(kCall, List{s.address()}, list);
                    });
}
