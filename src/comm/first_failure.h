// Agrees with the other ranks on what failed first.
//
// When a rank dies, each survivor sees connections break: those to the dead
// rank and, a moment later, those to survivors that gave up because of it. Only
// whoever failed first knows the culprit. So each rank, before it ends its own
// connections, offers its failure to the job's store, and takes the first one.
//
// Threads: any. Bounded: a store that does not answer changes nothing.
#ifndef DISTWRAP_SRC_COMM_FIRST_FAILURE_H_
#define DISTWRAP_SRC_COMM_FIRST_FAILURE_H_

#include "distwrap/status.h"
#include "distwrap/store.h"

#include <memory>
#include <string>

namespace distwrap::comm {

class FirstFailure {
 public:
  // `key` is the group's, on every rank the same.
  FirstFailure(std::shared_ptr<Store> store, std::string key);

  // Of the 100 ms that an error may come late; and of the 500 at most, for who
  // knows next to nothing without the answer.
  static constexpr absl::Duration kShort = absl::Milliseconds(40);
  static constexpr absl::Duration kLong = absl::Milliseconds(300);

  // The first failure of the group: `mine`, with its `my_rank` as reporter, or
  // the one that another rank offered before. `mine` as well when the store has
  // not answered in time.
  ErrorInfo agree(const ErrorInfo& mine, absl::Duration patience = kShort);

 private:
  const std::shared_ptr<Store> store_;
  const std::string key_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_FIRST_FAILURE_H_
