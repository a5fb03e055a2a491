// Shows a batch that starts to the hooks: the batch once for each group in it,
// and its items.
//
// Threads: one at a time.
#ifndef DISTWRAP_SRC_COMM_BATCH_HOOKS_H_
#define DISTWRAP_SRC_COMM_BATCH_HOOKS_H_

#include "comm/communicator.h"

#include <memory>
#include <vector>

namespace distwrap::comm {

class BatchHooks {
 public:
  explicit BatchHooks(absl::Span<const BackendCommunicator::BatchItem> items);

  // Returns the error of a hook that refuses; the groups have broken then, and
  // `post` has run.
  absl::Status pre();
  // `works`: one for each item, when the batch was begun.
  void post(const absl::StatusOr<std::vector<Work>>& works);

 private:
  absl::Status refuse(const HookRun& by, const absl::Status& refused);
  void post_all(const absl::Status& status);

  const absl::Span<const BackendCommunicator::BatchItem> items_;
  std::vector<std::shared_ptr<HookRun>> batches_;  // one for each group
  std::vector<std::shared_ptr<HookRun>>
      shown_;  // one for each item; null: shown to nobody
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BATCH_HOOKS_H_
