// All operators of the process: names, definitions, kernels, fallbacks, and the
// tables that calls read.
//
// The registry is never destroyed: a registration may end after everything
// else. One mutex serializes changes; calls take none.
#ifndef DISTWRAP_SRC_DISPATCH_REGISTRY_H_
#define DISTWRAP_SRC_DISPATCH_REGISTRY_H_

#include "dispatch/observers.h"
#include "distwrap/registration.h"

#include <absl/strings/string_view.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::dispatch {

// The places of kernels beside the slots of the table.
inline constexpr int kAutogradPlace = kSlots, kImplicitPlace = kSlots + 1,
                     kExplicitPlace = kSlots + 2;

struct Definition {
  std::shared_ptr<const Schema> schema;
  uint32_t tags = 0;
  Site site;
  std::string library;  // the path of the library that defines; "" for none
};

struct PlacedKernel {
  int place;
  uint64_t id;  // the registration's
  std::shared_ptr<const Kernel> kernel;
};

struct Entry : Operator {
  std::string name;
  std::optional<Definition> definition;
  // The last kernel of a place counts.
  std::vector<PlacedKernel> kernels;
  // The C++ signature of typed kernels and of find_op, and who said it first.
  std::string signature;
  Site signature_site;
  bool signature_called = false;  // find_op has made handles of it
  std::string hint;
  // After the end of the definition: what it went with, or where it was.
  std::string removed;
  // nullptr for an operator that nobody observes.
  std::shared_ptr<const Observers> observers;
  // Instead of an answer, this error: the handle of a wrong signature.
  absl::Status refusal;
  // In the block that runs now, the table is made at its end.
  bool changed = false;
};

// A kernel for a slot, and the word for why. Valid while the registry's mutex
// is held.
struct Choice {
  const Kernel* kernel = nullptr;
  const char* why = "missing";
  bool fallthrough = false;
};

class Registry {
 public:
  static Registry& get();

  Entry& entry(absl::string_view name);
  Entry& entry_of(const OpHandle& op) { return *static_cast<Entry*>(op.get()); }

  absl::StatusOr<uint64_t> own(absl::string_view ns, Site site);
  absl::StatusOr<uint64_t> define(absl::string_view text, uint32_t tags,
                                  Site site);
  absl::StatusOr<uint64_t> implement(absl::string_view op, Target target,
                                     Kernel kernel, Existing existing);
  absl::StatusOr<uint64_t> fallback(Key key, Kernel kernel);
  absl::StatusOr<uint64_t> allocator(int32_t device_type, Allocator allocator);
  absl::StatusOr<uint64_t> listen(const Listener& listener);
  absl::StatusOr<uint64_t> observe(absl::string_view op,
                                   const Observer& observer);
  // The advice of errors that say that the operator has no kernel.
  absl::StatusOr<uint64_t> hint(absl::string_view op, absl::string_view text);
  void undo(uint64_t id);
  // The line of LibraryInfo for a registration.
  std::string text_of(uint64_t id) const;

  OpHandle handle(absl::string_view name, absl::string_view signature,
                  Site site);
  Choice choose(const Entry& entry, int slot) const;
  // The tables of all operators that changed are made at the end of a block.
  // `library` is the path of the block's library.
  void begin_block(absl::string_view library);
  void end_block();
  absl::Status check() const;

  mutable std::recursive_mutex mutex;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> entries;

 private:
  struct Record {
    enum class Kind : uint8_t {
      kOwner,
      kDefinition,
      kKernel,
      kFallback,
      kAllocator,
      kListener,
      kObserver,
      kHint,
    } kind;
    Entry* entry = nullptr;
    std::string name = {};
    int slot = 0;
  };

  Registry();
  void change(Entry& entry);
  void set_observers(Entry& entry);
  void rebuild(Entry& entry);
  std::unique_ptr<Table> table_of(const Entry& entry) const;
  absl::Status fit(const Entry& entry, const Schema& schema,
                   const Kernel& kernel) const;

  uint64_t next_id_ = 1;
  std::map<uint64_t, Record> records_;
  std::map<uint64_t, Listener> listeners_;
  // By registration; the name is empty for an observer of all operators.
  std::map<uint64_t, std::pair<std::string, Observer>> observers_;
  std::map<std::string, std::pair<uint64_t, Site>, std::less<>> owners_;
  std::vector<std::pair<uint64_t, std::shared_ptr<const Kernel>>>
      fallbacks_[64];
  std::vector<std::unique_ptr<Entry>> refusals_;
  int blocks_ = 0;
  std::string block_library_;
};

// Makes the memory of a device type from now on; nullptr takes the allocator
// away again.
absl::Status set_allocator(int32_t device_type, Allocator allocator);

// The layer and, for layers with kernels by backend, the backend of a slot;
// nullopt for slot 0.
struct SlotKey {
  Key key;
  int backend;
};
std::optional<SlotKey> key_of_slot(int slot);
std::string site_text(const Site& site);

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_REGISTRY_H_
