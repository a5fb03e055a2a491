// Agrees with the other ranks on what failed first.
//
// When a rank dies, each survivor sees connections break: those to the dead
// rank and, a moment later, those to survivors that gave up because of it. Only
// the rank that failed first knows the root cause. So each rank, before it ends
// its own connections, offers its failure to the job's store, and takes the
// first one that was offered.
//
// Threads: any. Calls are bounded: a store that does not answer changes
// nothing.
#ifndef DISTWRAP_SRC_COMM_FIRST_FAILURE_H_
#define DISTWRAP_SRC_COMM_FIRST_FAILURE_H_

#include "distwrap/status.h"
#include "distwrap/store.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <string>

namespace distwrap::comm {

class FirstFailure {
 public:
  // `key`: the group's key, equal on all ranks.
  FirstFailure(std::shared_ptr<Store> store, std::string key);

  // Two limits for the answer: a part of the 100 ms by which an error may be
  // late, and of the 500 ms for a rank that knows almost nothing without it.
  static constexpr absl::Duration kShort = absl::Milliseconds(40);
  static constexpr absl::Duration kLong = absl::Milliseconds(300);

  // Returns the first failure of the group: `mine`, with its `my_rank` as
  // reporter, or the one that another rank offered before. Errors: the store's.
  absl::StatusOr<ErrorInfo> agree(const ErrorInfo& mine,
                                  absl::Duration patience = kShort);

 private:
  const std::shared_ptr<Store> store_;
  const std::string key_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_FIRST_FAILURE_H_
