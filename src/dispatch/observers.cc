// Observers: who hears of calls, and the calls that tell them.
#include "dispatch/observers.h"

#include "dispatch/quiescence.h"
#include "dispatch/registry.h"

#include <utility>

namespace distwrap::dispatch {

absl::StatusOr<uint64_t> Registry::observe(absl::string_view op,
                                           const Observer& observer) {
  const std::lock_guard lock(mutex);
  const uint64_t id = next_id_++;
  records_[id] = {.kind = Record::Kind::kObserver, .name = std::string(op)};
  observers_[id] = {std::string(op), observer};
  if (!op.empty()) {
    set_observers(entry(op));
  } else {
    for (auto& [name, one] : entries) set_observers(*one);
  }
  return id;
}

void Registry::set_observers(Entry& entry) {
  auto list = std::make_shared<Observers>();
  for (const auto& [id, one] : observers_) {
    const auto& [name, observer] = one;
    if (!name.empty() && name != entry.name) continue;
    list->all.push_back(observer);
    list->want_values = list->want_values || observer.values;
  }
  if (list->all.empty() && entry.observers == nullptr) return;
  // Calls may still read the list before.
  if (entry.observers != nullptr) {
    retire([before = entry.observers]() mutable { before.reset(); });
  }
  entry.observers = list->all.empty() ? nullptr : std::move(list);
  change(entry);
}

absl::StatusOr<Registration> observe(absl::string_view op,
                                     const Observer& observer) {
  absl::StatusOr<uint64_t> id = Registry::get().observe(op, observer);
  if (!id.ok()) return std::move(id).status();
  return Registration(*id);
}

bool observers_want_values(const Observers& observers) {
  return observers.want_values;
}

void tell_begin(const Observers& observers, const OpHandle& op, KeySet set,
                const Stack* arguments) {
  for (const Observer& one : observers.all) {
    if (one.begin == nullptr) continue;
    one.begin(one.context, op, set, one.values ? arguments : nullptr);
  }
}

void tell_end(const Observers& observers, const OpHandle& op,
              const absl::Status& status, const Stack* results) {
  // The last one that heard of the begin hears of the end first.
  for (auto one = observers.all.rbegin(); one != observers.all.rend(); ++one) {
    if (one->end == nullptr) continue;
    one->end(one->context, op, status, one->values ? results : nullptr);
  }
}

absl::Status run_observed(const Observers& observers, const OpHandle& op,
                          const Kernel* kernel, KeySet set, Stack& stack) {
  tell_begin(observers, op, set, &stack);
  absl::Status status = run_boxed(op, kernel, set, stack);
  tell_end(observers, op, status, status.ok() ? &stack : nullptr);
  return status;
}

}  // namespace distwrap::dispatch
