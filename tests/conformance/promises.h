// The promises in a backend's rows, by the rule of dw_caps_row.
#ifndef DISTWRAP_TESTS_CONFORMANCE_PROMISES_H_
#define DISTWRAP_TESTS_CONFORMANCE_PROMISES_H_

#include "case.h"
#include "team.h"

namespace distwrap::conformance {

struct Promises {
  const dw_caps_row* rows = nullptr;
  uint64_t n = 0;
  bool groups = false;  // whether there is a submit_group

  bool has_kind(uint16_t kind) const;
  bool has(uint16_t kind, int dtype, uint16_t reduce, uint32_t flags) const;
  bool has(const Case& c) const;
};
// Empty, with a finding, when `caps` fails.
Promises promises_of(const Member& member);

// An element type in which messages are promised in the given way, or -1.
int message_dtype(const Promises& promises, bool caller_waits);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_PROMISES_H_
