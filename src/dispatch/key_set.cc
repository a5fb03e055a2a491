#include "distwrap/key_set.h"

#include "dispatch/slots.h"
#include "distwrap/status.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <mutex>
#include <vector>

namespace distwrap::dispatch {
namespace {

struct NamedKeys {
  std::mutex mutex;
  std::string names[64];
};

NamedKeys& named_keys() {
  static NamedKeys* const keys = [] {
    auto* made = new NamedKeys;
#define DW_KEY(bit, enumerator, per_backend) \
  made->names[bit] = std::string(#enumerator).substr(1);
#include "distwrap/keys.def"
    return made;
  }();
  return *keys;
}

}  // namespace

SlotMap slot_map = first_slot_map();

absl::string_view backend_name(int backend) {
  switch (backend) {
    case 0:
      return "cpu";
    case 1:
      return "cuda";
    case 2:
      return "meta";
    case 3:
      return "private1";
    case 4:
      return "private2";
    case 5:
      return "private3";
    default:
      return "?";
  }
}

std::string key_name(Key key) {
  NamedKeys& keys = named_keys();
  const std::lock_guard lock(keys.mutex);
  const std::string& name = keys.names[static_cast<int>(key) & 63];
  return name.empty() ? absl::StrCat("key ", static_cast<int>(key)) : name;
}

std::string KeySet::text() const {
  std::vector<std::string> parts;
  for (const Key key : *this) parts.push_back(key_name(key));
  for (int backend = 0; backend < kBackends; ++backend) {
    if ((bits_ >> backend & 1) != 0) {
      parts.emplace_back(backend_name(backend));
    }
  }
  return absl::StrJoin(parts, "|");
}

absl::StatusOr<Key> allocate_key(absl::string_view name, Key below, Key above) {
  NamedKeys& keys = named_keys();
  const std::lock_guard lock(keys.mutex);
  const int taken = slot_map.slots - kNamedSlots;
  for (int bit = static_cast<int>(above) + 1;
       taken < kFreeSlots && bit < static_cast<int>(below); ++bit) {
    if (!keys.names[bit].empty()) continue;
    keys.names[bit] = std::string(name);
    slot_map.layers[bit].offset = static_cast<uint32_t>(slot_map.slots++);
    return static_cast<Key>(bit);
  }
  return make_error({.reason = Reason::kOutOfKeys,
                     .what = taken == kFreeSlots
                                 ? absl::StrCat("all ", kFreeSlots,
                                                " keys for programs are taken")
                                 : "no bit is free between the two keys",
                     .op = "allocate_key"});
}

}  // namespace distwrap::dispatch
