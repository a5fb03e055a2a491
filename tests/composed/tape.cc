#include "composed/tape.h"

#include <list>
#include <utility>

namespace distwrap::composed {
namespace {

dw_reduce_fn (*kernel_of_host)(void*, dw_dtype, uint16_t) = nullptr;

void heard_kernel(void* out, const void* const* in, uint64_t n, uint64_t count,
                  const void* operand) {
  tape().run_kernel(out, in, n, count, operand);
}

dw_reduce_fn hear_kernel(void* self, dw_dtype dtype, uint16_t reduce) {
  const dw_reduce_fn kernel = kernel_of_host(self, dtype, reduce);
  if (kernel == nullptr || !tape().on()) return kernel;
  tape().use(kernel, dtype.bits / 8u);
  return heard_kernel;
}

}  // namespace

Tape& tape() {
  static Tape one;
  return one;
}

void Tape::start(int ranks) {
  ranks_ = ranks;
  steps_.clear();
  on_ = true;
}

std::vector<Step> Tape::stop() {
  on_ = false;
  return std::move(steps_);
}

// The lists of an operation are copied, since they are gone after its call.
void Tape::add(Step step) {
  if (!on()) return;
  for (dw_op& op : step.ops) {
    for (dw_buf* buf : {&op.in, &op.out}) {
      for (const int64_t** list : {&buf->counts, &buf->displs}) {
        if (*list == nullptr) continue;
        step.lists.emplace_back(*list, *list + ranks_);
        *list = step.lists.back().data();
      }
    }
  }
  steps_.push_back(std::move(step));
}

void Tape::run_kernel(void* out, const void* const* in, uint64_t n,
                      uint64_t count, const void* operand) {
  Step step;
  step.kernel = kernel_;
  step.out = out;
  step.in.assign(in, in + n);
  step.count = count;
  step.element = element_;
  // Averages are not measured, because their operand would have to be kept.
  if (operand == nullptr) add(std::move(step));
  kernel_(out, in, n, count, operand);
}

const dw_host_api* hearing_host(const dw_host_api* host) {
  static std::list<dw_host_api> all;
  all.push_back(*host);
  kernel_of_host = host->reduce_kernel;
  all.back().reduce_kernel = hear_kernel;
  return &all.back();
}

int32_t submit_recorded(const dw_backend_api& api, dw_comm* comm,
                        const dw_op* op, dw_work* work, dw_error* error) {
  Step step;
  step.api = &api;
  step.comm = comm;
  step.ops = {*op};
  step.waits = (op->flags & DW_FLAG_CALLER_WAITS) != 0;
  tape().add(std::move(step));
  tape().enter();
  const int32_t code = api.submit(comm, op, work, error);
  tape().leave();
  return code;
}

int32_t group_recorded(const dw_backend_api& api, dw_backend* backend,
                       const dw_group_item* items, uint64_t n,
                       dw_error* error) {
  Step step;
  step.api = &api;
  step.backend = backend;
  for (uint64_t i = 0; i < n; ++i) {
    step.comm = items[i].comm;
    step.ops.push_back(*items[i].op);
    step.waits &= (items[i].op->flags & DW_FLAG_CALLER_WAITS) != 0;
  }
  tape().add(std::move(step));
  tape().enter();
  const int32_t code = api.submit_group(backend, items, n, error);
  tape().leave();
  return code;
}

}  // namespace distwrap::composed
