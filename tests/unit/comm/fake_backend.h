// A backend that does as a test says, so that each answer of the ABI can be
// given to the host.
#ifndef DISTWRAP_TESTS_UNIT_COMM_FAKE_BACKEND_H_
#define DISTWRAP_TESTS_UNIT_COMM_FAKE_BACKEND_H_

#include "comm/backend_instance.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <functional>
#include <memory>

namespace distwrap::comm {

// One at a time in a process: the table's functions reach it through a global.
class FakeBackend {
 public:
  explicit FakeBackend(uint32_t flags = 0);
  ~FakeBackend();

  // For another device than the host's memory: as it is, without `compose`.
  std::shared_ptr<BackendInstance> open(Device device = kCpu);

  // The result of `submit`; DW_DONE when unset.
  std::function<int32_t(const dw_op& op, dw_work* work, dw_error* error)>
      submit;
  // The result of `submit_group`; DW_DONE when unset.
  std::function<int32_t(const dw_group_item* items, uint64_t n,
                        dw_error* error)>
      submit_group;
  // The result of `progress`; unset at `open`: the backend has no such slot.
  std::function<int32_t()> progress;
  // The descriptor of `wait_fd` and what `arm` answers; unset at `open`: the
  // backend has neither.
  int wait_fd = -1;
  std::function<int32_t()> arm;
  // Actions of `comm_abort` besides being counted.
  std::function<void()> abort;
  // The result of `setup_step`, by round.
  std::function<int32_t(int round, dw_error* error)> step;

  // The results of `mem_register` and `mem_release`; unset at `open`: the
  // backend has neither slot.
  std::function<int32_t(void* address, uint64_t bytes)> mem_register;
  std::function<int32_t(dw_error* error)> mem_release;

  // Before `open`.
  void add_flags(uint32_t flags) { api_.flags |= flags; }
  // Ends a pending operation.
  void complete(dw_work* work, int32_t code, const dw_error* error = nullptr) {
    host->complete(work, code, error);
  }

  const dw_host_api* host = nullptr;
  std::atomic<int> submits{0}, aborts{0}, destroys{0}, closes{0}, cancels{0};

 private:
  dw_backend_api api_{};
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_TESTS_UNIT_COMM_FAKE_BACKEND_H_
