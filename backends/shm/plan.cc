// Prepared operations: a descriptor is read once, and a start brings addresses,
// numbers and times.
#include "backend.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/start.h"
#include "sdk/windows.h"

#include <memory>

namespace shm_backend {
namespace {

constexpr char kPlan[] = "shm: a prepared operation";

// The operation as it was read, and where its buffers lay at the last start.
struct Kept {
  EngineOp call;
  char* in = nullptr;
  char* out = nullptr;

  void move_to(char* new_in, char* new_out) {
    if (new_in != in) {
      call.in.at = new_in;
      call.in_pieces.move(in, new_in);
      in = new_in;
    }
    if (new_out == out) return;
    call.out.at = new_out;
    call.out_pieces.move(out, new_out);
    out = new_out;
  }
};

struct Plan {
  Comm* comm = nullptr;
  char* in = nullptr;  // the operation's own addresses
  char* out = nullptr;
  uint32_t flags = 0;
  uint64_t fingerprint = 0;
  ShortCall as_short;
  // One thread may use each of the two at a time, as with CallReaders.
  Kept waiting, other;
};

Plan& of(dw_plan* plan) { return *reinterpret_cast<Plan*>(plan); }

}  // namespace

int32_t plan_create(dw_comm* given, const dw_op* ops, uint64_t n,
                    dw_plan** plan, dw_error* error) {
  if (n != 1 || ops == nullptr)
    return dw_unsupported(error, "shm: one operation can be prepared");
  if (dw_is_of_window(ops) != 0)
    return dw_unsupported(error, "shm: no operation on a window is prepared");
  return dw_sdk::guarded(kPlan, error, [&]() -> int32_t {
    Comm* const comm = shm_backend::of(given);
    dw_op space;
    const dw_op* op;
    auto made = std::make_unique<Plan>();
    EngineOp& call = made->waiting.call;
    if (int32_t code = read_call(comm, ops, &call, error)) return code;
    dw_read_op(&space, &op, ops);
    made->comm = comm;
    made->in = made->waiting.in = static_cast<char*>(op->in.data);
    made->out = made->waiting.out = static_cast<char*>(op->out.data);
    made->flags = op->flags;
    made->fingerprint = op->fingerprint;
    if (!call.is_message()) made->as_short = short_form(*comm, *op, call);
    made->other = made->waiting;
    *plan = reinterpret_cast<dw_plan*>(made.release());
    return DW_OK;
  });
}

int32_t plan_run(dw_plan* given, const dw_start* start, dw_work* work,
                 dw_error* error) {
  dw_start space;
  const dw_start* how;
  if (int32_t code = dw_read_start(&space, &how, start))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "shm: a start has a size or a field that is not known");
  if (how->stream.device_type > DW_DEVICE_CPU)
    return dw_unsupported(error, "only host memory is supported");
  Plan& plan = of(given);
  const bool waits = (how->flags & DW_FLAG_CALLER_WAITS) != 0;
  Kept& kept = waits ? plan.waiting : plan.other;
  kept.move_to(how->in == nullptr
                   ? plan.in
                   : const_cast<char*>(static_cast<const char*>(how->in)),
               how->out == nullptr ? plan.out : static_cast<char*>(how->out));
  EngineOp& call = kept.call;
  call.flags = plan.flags | how->flags;
  call.deadline_ns = how->deadline_ns;
  call.timeout_ns = how->timeout_ns;
  call.trace = how->trace;
  call.print = call_reader::print_of(plan.fingerprint, how->seq, call);
  try {
    return submit_read(plan.comm, call, plan.as_short, how->seq, work, error);
  } catch (...) {
    return dw_sdk::error_of_exception(kPlan, error);
  }
}

int32_t plan_destroy(dw_plan* plan, dw_error* /*error*/) {
  delete &of(plan);
  return DW_OK;
}

}  // namespace shm_backend
