#include "dispatch/registry.h"

#include "dispatch/fail.h"
#include "dispatch/quiescence.h"
#include "dispatch/slots.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <array>

namespace distwrap::dispatch {
namespace {

// The table of an operator without kernels.
constinit const Table kEmptyTable{};

absl::Status duplicate(absl::string_view op, std::string what, const Site& old,
                       const Site& now) {
  return make_error({.reason = Reason::kDuplicate,
                     .what = std::move(what),
                     .op = std::string(op),
                     .expected = absl::StrCat("only ", site_text(old)),
                     .actual = absl::StrCat("also ", site_text(now))});
}

int place_of(const Target& target) {
  switch (target.kind) {
    case Target::Kind::kAutogradAlias:
      return kAutogradPlace;
    case Target::Kind::kCompositeImplicit:
      return kImplicitPlace;
    case Target::Kind::kCompositeExplicit:
      return kExplicitPlace;
    case Target::Kind::kSlot:
      break;
  }
  const int first = first_slot(target.key);
  const bool by_backend =
      slot_map.layers[static_cast<size_t>(target.key)].backends != 0;
  if (first == 0 || by_backend != (target.backend >= 0)) return -1;
  return first + (by_backend ? target.backend : 0);
}

const PlacedKernel* top(const Entry& entry, int place) {
  const auto found =
      std::find_if(entry.kernels.rbegin(), entry.kernels.rend(),
                   [&](const PlacedKernel& one) { return one.place == place; });
  return found == entry.kernels.rend() ? nullptr : &*found;
}

std::string types_text(const std::vector<SchemaType>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const SchemaType& t) {
    out->append(t.text());
  });
}

}  // namespace

std::optional<SlotKey> key_of_slot(int slot) {
  // The named slots never change; keys of programs have one slot each.
  static const auto* const named = [] {
    auto* made = new std::array<std::optional<SlotKey>, kNamedSlots>;
#define DW_KEY(bit, enumerator, per_backend)                        \
  for (int b = 0; b < (per_backend ? kBackends : 1); ++b) {         \
    (*made)[static_cast<size_t>(first_slot(Key::enumerator) + b)] = \
        SlotKey{Key::enumerator, per_backend ? b : -1};             \
  }
#include "distwrap/keys.def"
    return made;
  }();
  if (slot < kNamedSlots) return (*named)[static_cast<size_t>(slot)];
  for (int bit = kBackends; bit < 64; ++bit) {
    if (first_slot(static_cast<Key>(bit)) == slot) {
      return SlotKey{static_cast<Key>(bit), -1};
    }
  }
  return std::nullopt;
}

Registry& Registry::get() {
  static auto* const registry = new Registry;
  return *registry;
}

Registry::Registry() {
  // Layers without a kernel or a fallback have nothing to do, but for the
  // dense and sparse ones, which are missing.
  const auto nothing = std::make_shared<const Kernel>(fallthrough());
  for (int bit = kBackends; bit < 64; ++bit) {
    if (bit != static_cast<int>(kDense) && bit != static_cast<int>(kSparse)) {
      fallbacks_[bit].emplace_back(0, nothing);
    }
  }
}

Entry& Registry::entry(absl::string_view name) {
  const std::lock_guard lock(mutex);
  const auto found = entries.find(name);
  if (found != entries.end()) return *found->second;
  auto made = std::make_unique<Entry>();
  made->name = std::string(name);
  made->table.store(&kEmptyTable, std::memory_order_release);
  Entry& entry = *entries.emplace(made->name, std::move(made)).first->second;
  set_observers(entry);
  return entry;
}

Choice Registry::choose(const Entry& entry, int slot) const {
  const auto choice = [](const std::shared_ptr<const Kernel>& kernel,
                         const char* why) {
    return Choice{kernel.get(), why, kernel->fallthrough};
  };
  if (const PlacedKernel* exact = top(entry, slot)) {
    return choice(exact->kernel, "kernel");
  }
  const std::optional<SlotKey> key = key_of_slot(slot);
  const PlacedKernel* const implicit = top(entry, kImplicitPlace);
  const PlacedKernel* const explicit_one = top(entry, kExplicitPlace);
  const bool backend_slot =
      !key.has_value() || key->key == kDense || key->key == kSparse;
  if (backend_slot) {
    if (explicit_one != nullptr) {
      return choice(explicit_one->kernel, "composite");
    }
    if (implicit != nullptr) return choice(implicit->kernel, "composite");
    return {};
  }
  if (key->key == kAutograd) {
    // A composite is differentiable by its parts, unless the backend has a
    // kernel of its own that would be passed over.
    const bool own = explicit_one != nullptr ||
                     top(entry, first_slot(kDense) + key->backend) != nullptr ||
                     top(entry, first_slot(kSparse) + key->backend) != nullptr;
    if (implicit != nullptr && !own) {
      return choice(implicit->kernel, "composite");
    }
    if (const PlacedKernel* alias = top(entry, kAutogradPlace)) {
      return choice(alias->kernel, "alias");
    }
  }
  if (key->key == kViewTracking) {
    // Operators that neither write nor view, and composites, whose parts are
    // tracked, have nothing to track.
    const bool tracked = entry.definition.has_value() &&
                         (entry.definition->schema->is_mutable ||
                          entry.definition->schema->is_view) &&
                         (implicit == nullptr || explicit_one != nullptr);
    if (!tracked) return {nullptr, "nothing to track", true};
  }
  const auto& fallbacks = fallbacks_[static_cast<int>(key->key)];
  if (!fallbacks.empty()) return choice(fallbacks.back().second, "fallback");
  return {};
}

std::unique_ptr<Table> Registry::table_of(const Entry& entry) const {
  auto table = std::make_unique<Table>();
  for (uint64_t& mask : table->masks) mask = ~uint64_t{0};
  for (int slot = 0; slot < slot_map.slots; ++slot) {
    const Choice choice = choose(entry, slot);
    const std::optional<SlotKey> key = key_of_slot(slot);
    if (choice.fallthrough) {
      if (!key.has_value()) continue;
      const uint64_t bit = KeySet(key->key).bits();
      for (int b = 0; b < kBackends; ++b) {
        if (key->backend < 0 || key->backend == b) table->masks[b] &= ~bit;
      }
    } else if (choice.kernel != nullptr) {
      table->kernels[slot] = choice.kernel;
      // Observed calls take the way of boxed ones.
      if (entry.observers == nullptr) table->typed[slot] = choice.kernel->typed;
    }
  }
  table->observers = entry.observers.get();
  return table;
}

void Registry::change(Entry& entry) {
  if (blocks_ > 0) {
    entry.changed = true;
  } else {
    rebuild(entry);
  }
}

void Registry::rebuild(Entry& entry) {
  entry.changed = false;
  const Table* const now =
      entry.definition.has_value() ? table_of(entry).release() : &kEmptyTable;
  const Table* const before =
      entry.table.exchange(now, std::memory_order_acq_rel);
  if (before != &kEmptyTable) retire([before] { delete before; });
}

void Registry::begin_block(absl::string_view library) {
  mutex.lock();
  ++blocks_;
  block_library_ = std::string(library);
}

void Registry::end_block() {
  if (--blocks_ == 0) {
    block_library_.clear();
    for (auto& [name, entry] : entries) {
      if (entry->changed) rebuild(*entry);
    }
  }
  mutex.unlock();
}

absl::StatusOr<uint64_t> Registry::own(absl::string_view ns, Site site) {
  const std::lock_guard lock(mutex);
  const auto found = owners_.find(ns);
  if (found != owners_.end()) {
    return duplicate(ns, absl::StrCat("namespace ", ns, " has an owner"),
                     found->second.second, site);
  }
  const uint64_t id = next_id_++;
  owners_.emplace(std::string(ns), std::pair(id, site));
  records_[id] = {.kind = Record::Kind::kOwner, .name = std::string(ns)};
  return id;
}

absl::Status Registry::fit(const Entry& entry, const Schema& schema,
                           const Kernel& kernel) const {
  if (kernel.type == nullptr) return absl::OkStatus();
  const KernelType& type = *kernel.type;
  std::vector<SchemaType> params, returns;
  for (const SchemaParam& param : schema.params) params.push_back(param.type);
  // A written argument that is also the result is no result in C++.
  for (const SchemaReturn& result : schema.returns) {
    if (!result.alias.has_value() || !result.alias->write) {
      returns.push_back(result.type);
    }
  }
  const auto same = [](const SchemaType& a, const SchemaType& b) {
    return a.same_kind(b);
  };
  if (std::equal(params.begin(), params.end(), type.params.begin(),
                 type.params.end(), same) &&
      std::equal(returns.begin(), returns.end(), type.returns.begin(),
                 type.returns.end(), same)) {
    return absl::OkStatus();
  }
  return make_error(
      {.reason = Reason::kSchemaMismatch,
       .what = absl::StrCat("the kernel at ", site_text(kernel.site), ", ",
                            type.signature, ", does not fit the schema"),
       .op = entry.name,
       .expected = absl::StrCat("(", types_text(params), ") -> (",
                                types_text(returns), ")"),
       .actual = absl::StrCat("(", types_text(type.params), ") -> (",
                              types_text(type.returns), ")")});
}

absl::StatusOr<uint64_t> Registry::define(absl::string_view text, uint32_t tags,
                                          Site site) {
  absl::StatusOr<Schema> schema = Schema::parse(text);
  if (!schema.ok()) return std::move(schema).status();
  const std::lock_guard lock(mutex);
  Entry& op = entry(schema->full_name());
  if (op.definition.has_value()) {
    return duplicate(op.name, "the operator is defined already",
                     op.definition->site, site);
  }
  for (const PlacedKernel& one : op.kernels) {
    absl::Status status = fit(op, *schema, *one.kernel);
    if (!status.ok()) return status;
  }
  const uint64_t id = next_id_++;
  op.definition = Definition{std::make_shared<const Schema>(*std::move(schema)),
                             tags, site, block_library_};
  op.removed.clear();
  records_[id] = {.kind = Record::Kind::kDefinition, .entry = &op};
  change(op);
  for (const auto& [key, listener] : listeners_) {
    if (listener.defined != nullptr) {
      listener.defined(listener.context, OpHandle(&op));
    }
  }
  return id;
}

absl::StatusOr<uint64_t> Registry::implement(absl::string_view name,
                                             Target target, Kernel kernel,
                                             Existing existing) {
  const int place = place_of(target);
  if (place < 0) {
    return bad_argument(
        name, "no kernel can be registered there",
        "a layer of keys.def or of allocate_key(); with a device for Dense, "
        "Sparse and Autograd, and without one for the others",
        absl::StrCat(key_name(target.key), " with backend ", target.backend));
  }
  const std::lock_guard lock(mutex);
  Entry& op = entry(name);
  const PlacedKernel* const there = top(op, place);
  if (there != nullptr && existing == Existing::kRefuse) {
    return duplicate(op.name, "the operator has a kernel there",
                     there->kernel->site, kernel.site);
  }
  if (kernel.type != nullptr) {
    if (op.signature.empty()) {
      op.signature = kernel.type->signature;
      op.signature_site = kernel.site;
    } else if (op.signature != kernel.type->signature) {
      return make_error(
          {.reason = Reason::kSignatureMismatch,
           .what = "the kernel has another C++ signature than others",
           .op = op.name,
           .expected = absl::StrCat(op.signature, " (",
                                    site_text(op.signature_site), ")"),
           .actual = absl::StrCat(kernel.type->signature, " (",
                                  site_text(kernel.site), ")")});
    }
  }
  if (op.definition.has_value()) {
    absl::Status status = fit(op, *op.definition->schema, kernel);
    if (!status.ok()) return status;
  }
  const uint64_t id = next_id_++;
  op.kernels.push_back(
      {place, id, std::make_shared<const Kernel>(std::move(kernel))});
  records_[id] = {.kind = Record::Kind::kKernel, .entry = &op, .slot = place};
  change(op);
  return id;
}

absl::StatusOr<uint64_t> Registry::fallback(Key key, Kernel kernel) {
  const int bit = static_cast<int>(key);
  if (first_slot(key) == 0 || kernel.type != nullptr) {
    return bad_argument("fallback", "not a fallback",
                        "a boxed kernel for a layer of keys.def",
                        key_name(key));
  }
  const std::lock_guard lock(mutex);
  auto& fallbacks = fallbacks_[bit];
  if (!fallbacks.empty() && fallbacks.back().first != 0) {
    return duplicate(key_name(key), "the layer has a fallback",
                     fallbacks.back().second->site, kernel.site);
  }
  const uint64_t id = next_id_++;
  fallbacks.emplace_back(id, std::make_shared<const Kernel>(kernel));
  records_[id] = {.kind = Record::Kind::kFallback, .slot = bit};
  for (auto& [name, op] : entries) change(*op);
  return id;
}

absl::StatusOr<uint64_t> Registry::allocator(int32_t device_type,
                                             Allocator function) {
  const std::lock_guard lock(mutex);
  absl::Status status = set_allocator(device_type, function);
  if (!status.ok()) return status;
  const uint64_t id = next_id_++;
  records_[id] = {.kind = Record::Kind::kAllocator, .slot = device_type};
  return id;
}

absl::StatusOr<uint64_t> Registry::listen(const Listener& listener) {
  const std::lock_guard lock(mutex);
  const uint64_t id = next_id_++;
  records_[id] = {.kind = Record::Kind::kListener};
  listeners_[id] = listener;
  for (auto& [name, op] : entries) {
    if (op->definition.has_value() && listener.defined != nullptr) {
      listener.defined(listener.context, OpHandle(op.get()));
    }
  }
  return id;
}

absl::StatusOr<uint64_t> Registry::hint(absl::string_view op,
                                        absl::string_view text) {
  const std::lock_guard lock(mutex);
  Entry& hinted = entry(op);
  hinted.hint = std::string(text);
  const uint64_t id = next_id_++;
  records_[id] = {.kind = Record::Kind::kHint, .entry = &hinted};
  return id;
}

void Registry::undo(uint64_t id) {
  const std::lock_guard lock(mutex);
  const auto found = records_.find(id);
  if (found == records_.end()) return;
  const Record record = found->second;
  records_.erase(found);
  switch (record.kind) {
    case Record::Kind::kOwner:
      owners_.erase(record.name);
      break;
    case Record::Kind::kDefinition:
      for (const auto& [key, listener] : listeners_) {
        if (listener.removed != nullptr) {
          listener.removed(listener.context, OpHandle(record.entry));
        }
      }
      record.entry->removed =
          record.entry->definition->library.empty()
              ? absl::StrCat("; its definition was at ",
                             site_text(record.entry->definition->site))
              : absl::StrCat(" with ", record.entry->definition->library);
      record.entry->definition.reset();
      change(*record.entry);
      break;
    case Record::Kind::kKernel: {
      auto& kernels = record.entry->kernels;
      const auto one =
          std::find_if(kernels.begin(), kernels.end(),
                       [&](const PlacedKernel& k) { return k.id == id; });
      // Calls may still be in the kernel.
      retire([kernel = one->kernel]() mutable { kernel.reset(); });
      kernels.erase(one);
      // Another library may bring other types, unless calls have these.
      if (!record.entry->signature_called &&
          std::none_of(kernels.begin(), kernels.end(), [](const auto& left) {
            return left.kernel->type != nullptr;
          })) {
        record.entry->signature.clear();
      }
      change(*record.entry);
      break;
    }
    case Record::Kind::kFallback: {
      auto& fallbacks = fallbacks_[record.slot];
      const auto one =
          std::find_if(fallbacks.begin(), fallbacks.end(),
                       [&](const auto& f) { return f.first == id; });
      retire([kernel = one->second]() mutable { kernel.reset(); });
      fallbacks.erase(one);
      for (auto& [name, op] : entries) change(*op);
      break;
    }
    case Record::Kind::kAllocator:
      set_allocator(record.slot, nullptr).IgnoreError();
      break;
    case Record::Kind::kListener:
      listeners_.erase(id);
      break;
    case Record::Kind::kHint:
      record.entry->hint.clear();
      break;
    case Record::Kind::kObserver:
      observers_.erase(id);
      if (!record.name.empty()) {
        set_observers(entry(record.name));
      } else {
        for (auto& [name, op] : entries) set_observers(*op);
      }
      break;
  }
}

OpHandle Registry::handle(absl::string_view name, absl::string_view signature,
                          Site site) {
  const std::lock_guard lock(mutex);
  Entry& op = entry(name);
  if (op.signature.empty()) {
    op.signature = std::string(signature);
    op.signature_site = site;
  }
  if (op.signature == signature) {
    op.signature_called = true;
    return OpHandle(&op);
  }
  auto refusal = std::make_unique<Entry>();
  refusal->name = op.name;
  refusal->table.store(&kEmptyTable, std::memory_order_release);
  refusal->refusal =
      make_error({.reason = Reason::kSignatureMismatch,
                  .what = absl::StrCat("find_op at ", site_text(site),
                                       " asks for another C++ signature"),
                  .op = op.name,
                  .expected = absl::StrCat(op.signature, " (",
                                           site_text(op.signature_site), ")"),
                  .actual = std::string(signature)});
  refusals_.push_back(std::move(refusal));
  return OpHandle(refusals_.back().get());
}

}  // namespace distwrap::dispatch
