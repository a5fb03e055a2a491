// The calls in which ranks were last seen, as C structs.
//
// Threads: pure functions. Ownership: the texts belong to `seen`.
#ifndef DISTWRAP_SRC_CAPI_SEEN_H_
#define DISTWRAP_SRC_CAPI_SEEN_H_

#include "distwrap/c.h"
#include "distwrap/status.h"

#include <absl/types/span.h>

#include <vector>

namespace distwrap::capi {

inline std::vector<distwrap_seen_rank> seen_in_c(
    absl::Span<const RankSeen> seen) {
  std::vector<distwrap_seen_rank> in_c;
  for (const RankSeen& one : seen)
    in_c.push_back({one.rank, one.global_rank, one.pid, one.host.c_str(),
                    one.call.c_str(), one.group.c_str(), one.label.c_str(),
                    one.seq, absl::ToInt64Nanoseconds(one.since),
                    absl::ToInt64Nanoseconds(one.silent),
                    static_cast<int32_t>(one.doing), 0});
  return in_c;
}

}  // namespace distwrap::capi

#endif  // DISTWRAP_SRC_CAPI_SEEN_H_
