// The operations of a communicator that its device is running, so that the
// error of another one can say what that is queued behind. For backends with
// DW_BACKEND_SAYS_BEGUN.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_ON_DEVICE_H_
#define DISTWRAP_SRC_COMM_ON_DEVICE_H_

#include "base/mutex.h"
#include "distwrap/abi/types.h"

#include <array>
#include <cstdint>
#include <string>

namespace distwrap::comm {

class WorkCell;

class OnDevice {
 public:
  void begun(const WorkCell* cell, const dw_op& op);
  void ended(const WorkCell* cell);
  // "queued behind all_reduce #4, which has been running for 3s"
  std::string why_queued(const dw_op& op) const;

 private:
  struct Running {
    const WorkCell* cell = nullptr;
    const void* stream = nullptr;
    uint16_t kind = 0;
    uint64_t seq = 0;
    int64_t since_ns = 0;
  };

  mutable base::Mutex mutex_;
  // A device runs few operations of a communicator at a time. More than fit
  // here, such as those of a large batch, are left out of errors.
  std::array<Running, 8> running_ ABSL_GUARDED_BY(mutex_);
};

// How long, for an error: milliseconds at the finest.
std::string running_time(int64_t since_ns);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_ON_DEVICE_H_
