// Several Works as one.
//
// Threads: any. It lives until all parts have ended, and its handles are gone.
#ifndef DISTWRAP_SRC_COMM_JOINED_WORK_H_
#define DISTWRAP_SRC_COMM_JOINED_WORK_H_

#include "comm/completion.h"

#include <atomic>
#include <vector>

namespace distwrap::comm {

class JoinedWork final : public Completion {
 public:
  static Work of(std::vector<Work> parts);

  bool poll() override;
  void run_here(Deadline deadline) override;
  std::vector<TensorView> result() const override;
  absl::Status expired_wait() override;
  absl::Status wait_stream(const Stream& stream) override;
  bool can_cancel() const override;
  absl::Status cancel() override;

 private:
  class PartListener;
  explicit JoinedWork(std::vector<Work> parts);
  ~JoinedWork() override = default;
  void part_ended(CallbackThread& callbacks);

  const std::vector<Work> parts_;
  std::atomic<size_t> running_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_JOINED_WORK_H_
