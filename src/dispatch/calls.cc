// The slow side of calls: boxed calls, defaults, and the errors of calls that
// find no kernel.
#include "dispatch/fail.h"
#include "dispatch/registry.h"
#include "sdk/spelling.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace distwrap {

StatusError::StatusError(absl::Status status)
    : status_(std::move(status)), text_(status_.ToString()) {}
StatusError::~StatusError() = default;

namespace dispatch {
namespace {

// The defined names that are nearest, three at most.
std::string nearest(absl::string_view name) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const auto& [other, op] : registry.entries) {
    if (!op->definition.has_value()) continue;
    // An overload that was left out, or one too many, is near.
    const bool related = absl::StartsWith(other, absl::StrCat(name, ".")) ||
                         absl::StartsWith(name, absl::StrCat(other, "."));
    const size_t steps =
        related ? 0 : dw_sdk::edit_distance({name.data(), name.size()}, other);
    if (steps <= 3) ranked.emplace_back(steps, other);
  }
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > 3) ranked.resize(3);
  return absl::StrJoin(ranked, ", ", [](std::string* out, const auto& one) {
    out->append(one.second);
  });
}

absl::Status unknown(const Entry& op) {
  ErrorInfo info{.reason = Reason::kOpUnknown,
                 .what = "the operator is not defined",
                 .op = op.name};
  if (!op.removed.empty()) {
    info.what = absl::StrCat("the operator was removed", op.removed);
  } else if (!op.kernels.empty()) {
    info.what = absl::StrCat("the operator has implementations (",
                             site_text(op.kernels.front().kernel->site),
                             ") but no definition");
    info.next_step = "load the library that defines the operator";
  } else if (const std::string names = nearest(op.name); !names.empty()) {
    info.next_step = absl::StrCat("did you mean ", names, "?");
  }
  return make_error(info);
}

bool any_kernel_for(int backend) {
  const Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  for (const auto& [name, op] : registry.entries) {
    for (const PlacedKernel& one : op->kernels) {
      const std::optional<SlotKey> key = key_of_slot(one.place);
      if (one.place < kSlots && key.has_value() && key->backend == backend) {
        return true;
      }
    }
  }
  return false;
}

std::string tensors_text(const Stack& stack) {
  std::vector<std::string> texts;
  for (const Value& value : stack) {
    if (value.is_tensor()) texts.push_back(value.tensor().text());
    if (value.tag() == Value::Tag::kTensors) {
      for (const Tensor& one : value.to_tensors()) texts.push_back(one.text());
    }
  }
  return absl::StrJoin(texts, ", ");
}

absl::Status missing(const Entry& op, KeySet set, const Stack& stack) {
  const auto slot =
      static_cast<int>(slot_of(set, static_cast<uint32_t>(set.backend())));
  const std::optional<SlotKey> key = key_of_slot(slot);
  ErrorInfo info{.reason = Reason::kNoKernel, .op = op.name};
  const std::string tensors = tensors_text(stack);
  if (!key.has_value()) {
    info.what = tensors.empty()
                    ? "no tensor arguments, and no composite kernel"
                    : absl::StrCat(
                          "no kernel for tensors that are undefined "
                          "or of a device without a backend (",
                          tensors, ")");
  } else {
    info.what = absl::StrCat("no kernel for ", key_name(key->key));
    if (key->backend >= 0) {
      absl::StrAppend(&info.what, "/", backend_name(key->backend));
      if (!any_kernel_for(key->backend)) {
        info.next_step =
            absl::StrCat("no operator has a ", backend_name(key->backend),
                         " kernel: is libdistwrap_ops_",
                         backend_name(key->backend), " loaded?");
      } else {
        info.next_step = absl::StrCat("the operator is not implemented for ",
                                      backend_name(key->backend));
      }
    }
  }
  if (!op.hint.empty()) info.next_step = op.hint;
  info.actual = tensors;
  std::vector<std::string> places;
  const Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  for (int other = 0; other < slot_map.slots; ++other) {
    const Choice choice = registry.choose(op, other);
    if (choice.kernel == nullptr || choice.fallthrough) continue;
    const std::optional<SlotKey> place = key_of_slot(other);
    if (!place.has_value() || (place->key != kDense && place->key != kSparse)) {
      continue;
    }
    places.push_back(absl::StrCat(key_name(place->key), "/",
                                  backend_name(place->backend), " (",
                                  choice.why, ")"));
  }
  info.expected = places.empty() ? "none has one" : absl::StrJoin(places, ", ");
  return make_error(info);
}

// The kernel of a table for a set, and the set without idle layers.
struct Chosen {
  Chosen(const Table& table, KeySet wanted) {
    const auto backend = static_cast<uint32_t>(wanted.backend());
    set = KeySet::of_bits(wanted.bits() & table.masks[backend]);
    kernel = table.kernels[slot_of(set, backend)];
  }
  KeySet set;
  const Kernel* kernel;
};

absl::Status run_in(const Table& table, const OpHandle& op, KeySet set,
                    Stack& stack) {
  const Chosen chosen(table, set);
  return run_boxed(op, chosen.kernel, chosen.set, stack);
}

// One number stands for a list of known length.
void fill_lists(const Schema& schema, Stack& stack) {
  const size_t first = stack.size() - schema.params.size();
  for (size_t i = 0; i < schema.params.size(); ++i) {
    const auto length = static_cast<size_t>(schema.params[i].type.length);
    Value& value = stack[first + i];
    if (length == 0) continue;
    if (value.tag() == Value::Tag::kInt) {
      value = Value::own_copy(Ints(Dims(length, value.to_int())));
    } else if (value.tag() == Value::Tag::kFloat) {
      const std::vector<double> filled(length, value.to_float());
      value = Value::own_copy(absl::Span<const double>(filled));
    }
  }
}

// The set of the last `count` values.
KeySet set_of(const Stack& stack, size_t count) {
  uint64_t bits = 0;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    const Value& value = stack[i];
    if (value.is_tensor()) bits |= key_bits(value.tensor());
    if (value.tag() == Value::Tag::kTensors)
      bits |= key_bits(value.to_tensors());
    if (value.tag() == Value::Tag::kDevice) bits |= key_bits(value.to_device());
  }
  return KeySet::of_bits(bits);
}

}  // namespace

absl::Status status_of_exception() noexcept {
  try {
    throw;
  } catch (const StatusError& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return make_error(
        {.reason = Reason::kOutOfMemory, .what = "a kernel found no memory"});
  } catch (const std::exception& error) {
    return make_error({.reason = Reason::kKernelFailed, .what = error.what()});
  } catch (...) {
    return make_error({.reason = Reason::kKernelFailed,
                       .what = "an exception that is no std::exception"});
  }
}

absl::Status wrong_argument(const OpHandle& op, size_t index,
                            const SchemaType& expected, const Value& found) {
  const auto schema = op.schema();
  std::string what = absl::StrCat("argument ", index + 1);
  if (schema.ok() && index < (*schema)->params.size()) {
    absl::StrAppend(&what, " '", (*schema)->params[index].name, "'");
  }
  return bad_argument(op.name(), std::move(what), expected.text(),
                      found.text());
}

absl::Status wrong_count(const OpHandle& op, size_t expected, size_t found) {
  return bad_argument(op.name(), "too few values on the stack",
                      absl::StrCat(expected), absl::StrCat(found));
}

absl::Status wrong_results(const OpHandle& op) {
  return make_error({.reason = Reason::kKernelFailed,
                     .what = "a boxed kernel left other results than the "
                             "schema promises",
                     .op = op.name()});
}

Kernel boxed(BoxedFunction function, Site site) {
  Kernel kernel;
  kernel.function = reinterpret_cast<void (*)()>(function);
  kernel.boxed = [](const Kernel* self, const OpHandle& op, KeySet set,
                    Stack& stack) -> absl::Status {
    try {
      return reinterpret_cast<BoxedFunction>(self->function)(op, set, stack);
    } catch (...) {
      return status_of_exception();
    }
  };
  kernel.site = site;
  return kernel;
}

Kernel fallthrough(Site site) {
  Kernel kernel;
  kernel.fallthrough = true;
  kernel.site = site;
  return kernel;
}

OpHandle find_operator(absl::string_view name) {
  return OpHandle(&Registry::get().entry(name));
}
OpHandle find_operator(absl::string_view name, absl::string_view signature,
                       Site site) {
  return Registry::get().handle(name, signature, site);
}

std::string OpHandle::name() const { return static_cast<Entry*>(op_)->name; }

absl::StatusOr<std::shared_ptr<const Schema>> OpHandle::schema() const {
  const Entry& op = *static_cast<Entry*>(op_);
  if (!op.refusal.ok()) return op.refusal;
  const std::lock_guard lock(Registry::get().mutex);
  if (!op.definition.has_value()) return unknown(op);
  return op.definition->schema;
}

absl::Status OpHandle::call_boxed(Stack& stack) const {
  auto found = schema();
  if (!found.ok()) return std::move(found).status();
  const Schema& schema = **found;
  // The values below the arguments belong to the caller: only a stack with
  // fewer values than parameters is filled up.
  while (stack.size() < schema.params.size()) {
    const SchemaParam& param = schema.params[stack.size()];
    if (param.value == nullptr) {
      return bad_argument(name(),
                          absl::StrCat("argument ", stack.size() + 1, " '",
                                       param.name, "' is missing"),
                          param.type.text(), "nothing");
    }
    stack.push_back(param.value->copy());
  }
  fill_lists(schema, stack);
  const KeySet set = with_thread_keys(set_of(stack, schema.params.size()));
  const CallScope scope;
  const Table* const table = op_->table.load(std::memory_order_acquire);
  if (table->observers == nullptr) return run_in(*table, *this, set, stack);
  const Chosen chosen(*table, set);
  return run_observed(*table->observers, *this, chosen.kernel, chosen.set,
                      stack);
}

absl::Status OpHandle::redispatch_boxed(KeySet set, Stack& stack) const {
  const CallScope scope;
  return run_in(*op_->table.load(std::memory_order_acquire), *this, set, stack);
}

absl::Status no_kernel(const OpHandle& handle, KeySet set, const Stack& stack) {
  const Entry& op = *static_cast<Entry*>(handle.get());
  if (!op.refusal.ok()) return op.refusal;
  const std::lock_guard lock(Registry::get().mutex);
  if (!op.definition.has_value()) return unknown(op);
  return missing(op, set, stack);
}

std::string OpHandle::dump() const {
  const Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  const Entry& op = *static_cast<Entry*>(op_);
  if (!op.definition.has_value()) {
    return absl::StrCat(op.name, "  not defined\n");
  }
  std::string text = absl::StrCat(op.definition->schema->text(), "  ",
                                  site_text(op.definition->site), "\n");
  for (int slot = 0; slot < slot_map.slots; ++slot) {
    const Choice choice = registry.choose(op, slot);
    const std::optional<SlotKey> key = key_of_slot(slot);
    if (choice.fallthrough) continue;
    // Only devices that other operators serve are missed.
    if (choice.kernel == nullptr && (!key.has_value() || key->key != kDense ||
                                     !any_kernel_for(key->backend))) {
      continue;
    }
    std::string place = "undefined";
    if (key.has_value()) {
      place = absl::AsciiStrToLower(key_name(key->key));
      if (key->backend >= 0) {
        absl::StrAppend(&place, "/", backend_name(key->backend));
      }
      if (key->backend >= 0 && backend_name(key->backend) == "?") continue;
    }
    if (choice.kernel == nullptr) {
      absl::StrAppendFormat(&text, "  %-18s missing\n", place);
      continue;
    }
    absl::StrAppendFormat(&text, "  %-18s %-10s %s\n", place, choice.why,
                          site_text(choice.kernel->site));
  }
  return text;
}

}  // namespace dispatch
}  // namespace distwrap
