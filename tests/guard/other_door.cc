// The door of another version of distwrap.
#include "sdk/guard_door.h"

extern "C" __attribute__((visibility("default"))) const dw_guard_door*
distwrap_guard_door() {
  static const dw_guard_door kDoor = {1,       0,       "0.0.9", nullptr,
                                      nullptr, nullptr, nullptr, nullptr,
                                      nullptr, nullptr};
  return &kDoor;
}
