// The options of a combine, and its work, for all calls that combine.
//
// Threads: one thread. Ownership: a Combine holds the lists that its options
// point to.
#ifndef DISTWRAP_SRC_CAPI_MOE_COMBINE_H_
#define DISTWRAP_SRC_CAPI_MOE_COMBINE_H_

#include "capi/arguments.h"
#include "capi/entry.h"
#include "distwrap/moe_plan.h"

#include <absl/status/status.h>

#include <vector>

namespace distwrap::capi {

struct Combine {
  CombineOptions options;
  Views bias;
  std::vector<CombineOptions::Return> returns;
};

absl::Status read_combine(const char* call, Arguments& arguments,
                          const distwrap_moe_combine_options* from,
                          Combine* combine);

// Makes a call that waits, or starts it and gives its work out.
template <class Start>
absl::Status hand_out_work(const char* call, distwrap_work* work,
                           const Start& start) {
  return work == nullptr ? start().status()
                         : hand_out_started(call, work, start);
}

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_MOE_COMBINE_H_
