// The asynchronous redistributions of a mesh. They run one after the other in a
// thread of their own, which exists from the first of them on: steps of several
// at a time would meet the groups in another order on each rank.
//
// Threads: any. Ownership: counted; the end waits for what has been started.
// The child of a fork has none of the threads: it starts nothing and ends
// nothing.
#ifndef DISTWRAP_SRC_MESH_IN_ORDER_H_
#define DISTWRAP_SRC_MESH_IN_ORDER_H_

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "comm/callback_thread.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace distwrap::mesh {

class InOrder {
 public:
  static std::shared_ptr<InOrder> make();
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

  // Calls `move` behind those that were started before. `outs` is the result of
  // the Work. Errors: kResourceLimit, kOutOfMemory, kForkedChild.
  absl::StatusOr<Work> start(std::function<absl::Status()> move,
                             std::vector<TensorView> outs);
  // Whether some have not ended: what comes now has to be started, too.
  bool busy() const { return unended_.load(std::memory_order_acquire) != 0; }

 private:
  InOrder() = default;
  ~InOrder() = default;
  absl::Status start_threads();

  const base::ForkMark process_;
  std::atomic<int> unended_{0};
  base::Mutex mutex_;
  bool has_callbacks_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_moves_ ABSL_GUARDED_BY(mutex_) = false;
  // The callbacks of Works run beside the redistributions, and may start some.
  comm::CallbackThread callbacks_, moves_;
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_IN_ORDER_H_
