// From a key set to the place of a kernel in an operator's table.
//
// Slot 0 is that of calls without tensors. Then come, from low to high, one
// slot for each layer, or one for each backend of a layer that has kernels by
// backend, then the slots of keys of programs.
#ifndef DISTWRAP_SRC_DISPATCH_SLOTS_H_
#define DISTWRAP_SRC_DISPATCH_SLOTS_H_

#include "distwrap/operator.h"

namespace distwrap::dispatch {

constexpr SlotMap first_slot_map() {
  SlotMap map{};
  int next = 1;
#define DW_KEY(bit, enumerator, per_backend)                  \
  map.layers[bit].offset = static_cast<uint32_t>(next);       \
  map.layers[bit].backends = per_backend ? kBackends - 1 : 0; \
  next += per_backend ? kBackends : 1;
#include "distwrap/keys.def"
  map.slots = next;
  return map;
}

// The first slot of a layer; 0 for a bit that is no layer.
inline int first_slot(Key key) {
  return static_cast<int>(slot_map.layers[static_cast<size_t>(key)].offset);
}

inline constexpr int kNamedSlots = first_slot_map().slots;
inline constexpr int kFreeSlots = 8;
static_assert(kNamedSlots + kFreeSlots == kSlots);

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_SLOTS_H_
