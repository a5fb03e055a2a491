// The public face of the registry: registrations, blocks and their errors.
#include "distwrap/registration.h"

#include "dispatch/fail.h"
#include "dispatch/registry.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::dispatch {
namespace {

absl::StatusOr<Registration> made(absl::StatusOr<uint64_t> id) {
  if (!id.ok()) return std::move(id).status();
  return Registration(*id);
}

uint32_t bits_of(std::initializer_list<Tag> tags) {
  uint32_t bits = 0;
  for (const Tag tag : tags) bits |= static_cast<uint32_t>(tag);
  return bits;
}

}  // namespace

void Registration::end() {
  if (id_ != 0) Registry::get().undo(std::exchange(id_, 0));
}

std::string Registration::text() const { return Registry::get().text_of(id_); }

absl::StatusOr<Registration> own_namespace(absl::string_view name, Site site) {
  return made(Registry::get().own(name, site));
}
absl::StatusOr<Registration> define(absl::string_view schema,
                                    std::initializer_list<Tag> tags,
                                    Site site) {
  return made(Registry::get().define(schema, bits_of(tags), site));
}
absl::StatusOr<Registration> implement(absl::string_view op, Target target,
                                       Kernel kernel, Existing existing) {
  return made(
      Registry::get().implement(op, target, std::move(kernel), existing));
}
absl::StatusOr<Registration> fallback(Key key, Kernel kernel) {
  return made(Registry::get().fallback(key, std::move(kernel)));
}
absl::StatusOr<Registration> register_allocator(int32_t device_type,
                                                Allocator allocator) {
  return made(Registry::get().allocator(device_type, allocator));
}
Registration listen(const Listener& listener) {
  absl::StatusOr<Registration> heard = made(Registry::get().listen(listener));
  return heard.ok() ? *std::move(heard) : Registration();
}

void Registrar::keep(absl::StatusOr<Registration> one) {
  if (one.ok()) {
    kept.push_back(*std::move(one));
  } else if (status.ok()) {
    status = std::move(one).status();
  }
}

Namespace Registrar::own(absl::string_view name, Site site) {
  keep(own_namespace(name, site));
  return Namespace(this, std::string(name));
}
Namespace Registrar::extend(absl::string_view name) {
  return Namespace(this, std::string(name));
}
void Registrar::impl(absl::string_view op, Target target, Kernel kernel,
                     Existing existing) {
  keep(implement(op, target, std::move(kernel), existing));
}
void Registrar::fallback(Key key, Kernel kernel) {
  keep(dispatch::fallback(key, std::move(kernel)));
}
void Registrar::allocator(int32_t device_type, Allocator function) {
  keep(register_allocator(device_type, function));
}

void Namespace::def(absl::string_view schema, std::initializer_list<Tag> tags,
                    Site site) {
  registrar_->keep(define(absl::StrCat(name_, "::", schema), tags, site));
}
void Namespace::impl(absl::string_view op, Target target, Kernel kernel,
                     Existing existing) {
  registrar_->impl(absl::StrCat(name_, "::", op), target, std::move(kernel),
                   existing);
}
void Namespace::hint(absl::string_view op, absl::string_view text) {
  registrar_->keep(
      made(Registry::get().hint(absl::StrCat(name_, "::", op), text)));
}

bool has_tag(const OpHandle& op, Tag tag) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  const Entry& entry = registry.entry_of(op);
  if (!entry.definition.has_value()) return false;
  const Schema& schema = *entry.definition->schema;
  uint32_t tags = entry.definition->tags;
  constexpr uint32_t kImpure = static_cast<uint32_t>(Tag::kRandom) |
                               static_cast<uint32_t>(Tag::kMayAliasOrMutate) |
                               static_cast<uint32_t>(Tag::kSideEffect) |
                               static_cast<uint32_t>(Tag::kCollective);
  if (!schema.is_mutable && (tags & kImpure) == 0) {
    tags |= static_cast<uint32_t>(Tag::kPure);
  }
  if (schema.is_view) tags |= static_cast<uint32_t>(Tag::kView);
  return (tags & static_cast<uint32_t>(tag)) != 0;
}

std::vector<OpHandle> operators() {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::vector<OpHandle> all;
  for (const auto& [name, op] : registry.entries) {
    if (op->definition.has_value()) all.emplace_back(op.get());
  }
  return all;
}

std::vector<std::string> dangling_implementations() {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::vector<std::string> all;
  for (const auto& [name, op] : registry.entries) {
    if (op->definition.has_value()) continue;
    for (const PlacedKernel& one : op->kernels) {
      all.push_back(absl::StrCat(name, " ", site_text(one.kernel->site)));
    }
  }
  return all;
}

absl::Status check_invariants() { return Registry::get().check(); }

}  // namespace distwrap::dispatch
