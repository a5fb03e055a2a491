// The store of ranks that are threads of one process.
#include "base/exceptions.h"
#include "base/mutex.h"
#include "distwrap/store.h"
#include "store/call.h"
#include "store/interrupt.h"
#include "store/table.h"

namespace distwrap {
namespace store {
namespace {

using base::CondVar;
using base::Mutex;
using base::MutexLock;

class InMemoryStore final : public Store {
 public:
  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override try {
    const StoreCall call("store set", deadline);
    if (absl::Status status = call.check(key, value); !status.ok())
      return status;
    std::string own(value);  // copied before the lock is taken
    MutexLock lock(mutex_);
    table_.set(key, std::move(own));
    return absl::OkStatus();
  } catch (...) {
    return base::error_of_exception("store set");
  }

  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline deadline) override try {
    absl::StatusOr<std::vector<std::string>> values =
        collect(StoreCall("store get", deadline), {std::string(key)}, true);
    if (!values.ok()) return values.status();
    return std::move(values->front());
  } catch (...) {
    return base::error_of_exception("store get");
  }

  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override try {
    return collect(StoreCall("store wait", deadline), keys, false).status();
  } catch (...) {
    return base::error_of_exception("store wait");
  }

  absl::StatusOr<std::vector<std::string>> get_all(
      const std::vector<std::string>& keys, Deadline deadline) override try {
    return collect(StoreCall("store get_all", deadline), keys, true);
  } catch (...) {
    return base::error_of_exception("store get_all");
  }

  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override try {
    const StoreCall call("store add", deadline);
    if (absl::Status status = call.check(key); !status.ok()) return status;
    MutexLock lock(mutex_);
    absl::StatusOr<int64_t> sum = table_.add(key, delta);
    if (!sum.ok()) return call.invalid(key, sum.status().message());
    return sum;
  } catch (...) {
    return base::error_of_exception("store add");
  }

  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override try {
    const StoreCall call("store compare_set", deadline);
    if (absl::Status status = call.check(key, desired, expected); !status.ok())
      return status;
    MutexLock lock(mutex_);
    return table_.compare_set(key, expected, std::string(desired));
  } catch (...) {
    return base::error_of_exception("store compare_set");
  }

  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override try {
    const StoreCall call("store delete_key", deadline);
    if (absl::Status status = call.check(key); !status.ok()) return status;
    MutexLock lock(mutex_);
    return table_.erase(key);
  } catch (...) {
    return base::error_of_exception("store delete_key");
  }

  std::string address() const override { return "in memory"; }

 private:
  // Waits for all keys, then reads them under the same lock.
  absl::StatusOr<std::vector<std::string>> collect(
      const StoreCall& call, const std::vector<std::string>& keys,
      bool with_values) {
    if (absl::Status status = call.check(keys); !status.ok()) return status;
    // Declared before the wait that refers to it, so it outlives the wait. One
    // wake-up goes to one waiter.
    CondVar changed;
    bool ready = false;
    Wait wait;
    wait.keys = keys;
    wait.ready = [&] {
      ready = true;
      changed.notify_one();
    };
    MutexLock lock(mutex_);
    for (;;) {
      if (table_.start(&wait)) break;
      ready = false;
      while (!ready) {
        if (wait_on(&changed, call.deadline()) || ready) continue;
        table_.cancel(&wait);
        if (!call.deadline().passed()) return Interrupt::error(call.op());
        return call.timed_out(table_.missing(keys));
      }
      // A key may have been deleted between the wake-up and this point.
    }
    std::vector<std::string> values;
    if (!with_values) return values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(*table_.find(key));
    return values;
  }

  // False at the deadline, and when the start was interrupted. No condition
  // variable can wait for a descriptor, so the descriptor is looked at 50 times
  // a second.
  bool wait_on(CondVar* changed, Deadline deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Interrupt::descriptor() < 0)
      return changed->wait_until(mutex_, deadline);
    const Deadline soon = Deadline::after(kLook);
    if (changed->wait_until(mutex_, Deadline::earlier(deadline, soon)))
      return true;
    return Interrupt::sleep(Deadline::at_ns(0)) && !deadline.passed();
  }

  static constexpr absl::Duration kLook = absl::Milliseconds(20);
  Mutex mutex_;
  Table table_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace
}  // namespace store

std::shared_ptr<Store> Store::in_memory() {
  return std::make_shared<store::InMemoryStore>();
}

absl::StatusOr<std::vector<std::string>> Store::get_all(
    const std::vector<std::string>& keys, Deadline deadline) {
  if (absl::Status status = wait(keys, deadline); !status.ok()) return status;
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) {
    absl::StatusOr<std::string> value = get(key, deadline);
    if (!value.ok()) return value.status();
    values.push_back(*std::move(value));
  }
  return values;
}

}  // namespace distwrap
