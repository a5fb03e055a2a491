// The parts of a composed operation: its calls into the backend below and into
// kernels, recorded as they happen.
//
// Threads: one at a time. Ownership: steps own everything except the
// communicators and the operations' memory, which is never read here.
//
//   const dw_backend_api& below = recorded<table>();      // under `compose`
//   const dw_backend_api& api = hearing<compose_over<..>>();  // and above it
//   tape().start(2);  // ranks
//   api.submit(...);
#ifndef DISTWRAP_TESTS_COMPOSED_TAPE_H_
#define DISTWRAP_TESTS_COMPOSED_TAPE_H_

#include "distwrap/abi/plugin.h"
#include "fakes/compose_over.h"

#include <cstdint>
#include <vector>

namespace distwrap::composed {

// One call: an operation, a set of them, a kernel, or a copy.
struct Step {
  const dw_backend_api* api = nullptr;  // null: local work
  dw_backend* backend = nullptr;        // backend of a set
  dw_comm* comm = nullptr;
  std::vector<dw_op> ops = {};
  std::vector<std::vector<int64_t>> lists = {};  // lists of counts and places
  bool waits = true;                             // whether all of it ends
                                                 // inside the call
  dw_reduce_fn kernel = nullptr;                 // null with a null api: a copy
  const void* out = nullptr;
  std::vector<const void*> in = {};
  uint64_t count = 0;
  uint64_t element = 1;  // bytes
};

class Tape {
 public:
  void start(int ranks);
  std::vector<Step> stop();

  bool on() const { return on_ && depth_ == 0; }
  // Calls that the backend below makes itself are no parts.
  void enter() { ++depth_; }
  void leave() { --depth_; }
  void add(Step step);
  // The kernel in use while the tape runs, and the element size of its type.
  void use(dw_reduce_fn kernel, uint64_t element) {
    kernel_ = kernel;
    element_ = element;
  }
  void run_kernel(void* out, const void* const* in, uint64_t n, uint64_t count,
                  const void* operand);

 private:
  bool on_ = false;
  int depth_ = 0;
  int ranks_ = 1;
  dw_reduce_fn kernel_ = nullptr;
  uint64_t element_ = 1;
  std::vector<Step> steps_;
};

// The only tape of this process.
Tape& tape();

// The host's table with kernels that the tape records. Lives as long as the
// process.
const dw_host_api* hearing_host(const dw_host_api* host);

int32_t submit_recorded(const dw_backend_api& api, dw_comm* comm,
                        const dw_op* op, dw_work* work, dw_error* error);
int32_t group_recorded(const dw_backend_api& api, dw_backend* backend,
                       const dw_group_item* items, uint64_t n, dw_error* error);

// A backend whose calls are recorded.
template <fakes::TableFunction kInner>
const dw_backend_api& recorded() {
  static const dw_backend_api table = [] {
    dw_backend_api api = kInner();
    api.submit = [](dw_comm* comm, const dw_op* op, dw_work* work,
                    dw_error* error) {
      return submit_recorded(kInner(), comm, op, work, error);
    };
    if (api.submit_group != nullptr) {
      api.submit_group = [](dw_backend* backend, const dw_group_item* items,
                            uint64_t n, dw_error* error) {
        return group_recorded(kInner(), backend, items, n, error);
      };
    }
    return api;
  }();
  return table;
}

// A backend whose use of kernels is recorded.
template <fakes::TableFunction kInner>
const dw_backend_api& hearing() {
  static const dw_backend_api table = [] {
    dw_backend_api api = kInner();
    api.open = [](const dw_host_api* host, const dw_open_info* info,
                  dw_backend** backend, dw_error* error) {
      return kInner().open(hearing_host(host), info, backend, error);
    };
    return api;
  }();
  return table;
}

}  // namespace distwrap::composed

#endif  // DISTWRAP_TESTS_COMPOSED_TAPE_H_
