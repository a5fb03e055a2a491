// The observers of an operator, as its table gives them to calls.
#ifndef DISTWRAP_SRC_DISPATCH_OBSERVERS_H_
#define DISTWRAP_SRC_DISPATCH_OBSERVERS_H_

#include "distwrap/registration.h"

#include <vector>

namespace distwrap::dispatch {

// The observers of an operator, in the order of their registration. A change
// makes a new list.
struct Observers {
  std::vector<Observer> all;
  bool want_values = false;
};

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_OBSERVERS_H_
