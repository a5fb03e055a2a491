// The registry for people and tests: texts of registrations, and the check that
// every table is the one that follows from them.
#include "dispatch/registry.h"
#include "dispatch/slots.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace distwrap::dispatch {
namespace {

// "Dense/cpu", "Autograd", "CompositeImplicit".
std::string place_text(int place) {
  switch (place) {
    case kAutogradPlace:
      return "Autograd";
    case kImplicitPlace:
      return "CompositeImplicit";
    case kExplicitPlace:
      return "CompositeExplicit";
    default:
      break;
  }
  const std::optional<SlotKey> key = key_of_slot(place);
  if (!key.has_value()) return "?";
  return key->backend < 0 ? key_name(key->key)
                          : absl::StrCat(key_name(key->key), "/",
                                         backend_name(key->backend));
}

}  // namespace

std::string site_text(const Site& site) {
  absl::string_view file = site.file_name();
  const size_t slash = file.rfind('/');
  if (slash != absl::string_view::npos) file.remove_prefix(slash + 1);
  return absl::StrCat(file, ":", site.line());
}

std::string Registry::text_of(uint64_t id) const {
  const std::lock_guard lock(mutex);
  const auto found = records_.find(id);
  if (found == records_.end()) return "nothing";
  const Record& record = found->second;
  switch (record.kind) {
    case Record::Kind::kOwner:
      return absl::StrCat("own ", record.name);
    case Record::Kind::kDefinition:
      return absl::StrCat("define ", record.entry->definition->schema->text());
    case Record::Kind::kKernel:
      return absl::StrCat("implement ", record.entry->name, " ",
                          place_text(record.slot));
    case Record::Kind::kFallback:
      return absl::StrCat("fallback ", key_name(static_cast<Key>(record.slot)));
    case Record::Kind::kAllocator:
      return absl::StrCat("allocator ",
                          backend_name(backend_of({.type = record.slot})));
    case Record::Kind::kListener:
      return "listener";
    case Record::Kind::kObserver:
      return absl::StrCat("observer ", record.name);
    case Record::Kind::kHint:
      return absl::StrCat("hint ", record.entry->name);
  }
  return "nothing";
}

absl::Status Registry::check() const {
  const std::lock_guard lock(mutex);
  for (const auto& [name, op] : entries) {
    const Table* const table = op->table.load(std::memory_order_acquire);
    const std::unique_ptr<Table> wanted =
        op->definition.has_value() ? table_of(*op) : std::make_unique<Table>();
    const bool equal =
        std::equal(std::begin(table->masks), std::end(table->masks),
                   std::begin(wanted->masks)) &&
        std::equal(std::begin(table->typed), std::end(table->typed),
                   std::begin(wanted->typed)) &&
        std::equal(std::begin(table->kernels), std::end(table->kernels),
                   std::begin(wanted->kernels)) &&
        table->observers == wanted->observers;
    if (!equal) {
      return make_error({.reason = Reason::kKernelFailed,
                         .what = "the table is not that of the registrations",
                         .op = name});
    }
  }
  return absl::OkStatus();
}

}  // namespace distwrap::dispatch
