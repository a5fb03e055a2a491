#include "algo/compose/table.h"

#include "algo/compose/compose.h"
#include "algo/compose/plan.h"
#include "algo/compose/window.h"
#include "algo/decorator.h"
#include "sdk/guard.h"

#include <new>

namespace distwrap::algo {
namespace compose {
namespace {

void close(dw_backend* backend) { delete &Backend::of(backend); }

int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n_rows,
             dw_error* /*error*/) {
  *rows = Backend::of(backend).rows().data();
  *n_rows = Backend::of(backend).rows().size();
  return DW_OK;
}

int32_t comm_abort(dw_comm* comm, const dw_error* why) {
  return Comm::of(comm).abort(why);
}

int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error) {
  Comm& ending = Comm::of(comm);
  // An operation thread that the backend below does not let go keeps its
  // communicator: better a leak than memory freed under its feet.
  if (!ending.stop(deadline_ns))
    return fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT,
                "an operation is still in flight");
  const dw_backend_api& inner = ending.backend().inner();
  dw_comm* const below = ending.inner();
  delete &ending;
  return inner.comm_destroy(below, deadline_ns, error);
}

int32_t query(dw_comm* comm, const dw_op* op, dw_error* error) {
  return Comm::of(comm).query(op, error);
}

int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error) {
  try {
    return Comm::of(comm).submit(op, work, error);
  } catch (...) {
    return dw_sdk::error_of_exception("an operation", error);
  }
}

// An operation that is composed is not known below.
int32_t run_queued(dw_comm* comm, uint64_t seq) {
  const Comm& runs = Comm::of(comm);
  const auto run_below = runs.backend().inner().run_queued;
  return run_below == nullptr ? DW_UNIMPLEMENTED : run_below(runs.inner(), seq);
}

int32_t progress(dw_backend* backend) {
  return Backend::of(backend).progress();
}

int32_t pass(dw_comm* comm, dw_window* window, dw_pass* out) {
  const Comm& asked = Comm::of(comm);
  *out = {asked.backend().passed_on(), asked.inner(),
          window == nullptr ? nullptr : Window::of(window).inner};
  return DW_OK;
}

constexpr dw_backend_api make_table() {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags =
      DW_BACKEND_DECORATOR | DW_BACKEND_HOST_WATCHES | DW_BACKEND_SUBMIT_BESIDE;
  api.devices = ~uint32_t{0};  // as the backend below
  api.name = {"compose", 7};
  api.version = {"1.0", 3};
  api.open = Backend::open;
  api.close = close;
  api.caps = caps;
  api.setup_begin = setup_begin;
  api.setup_step = setup_step;
  api.setup_cancel = setup_cancel;
  api.comm_abort = comm_abort;
  api.comm_destroy = comm_destroy;
  api.query = query;
  api.submit = submit;
  api.submit_group = submit_group;
  api.progress = progress;
  api.run_queued = run_queued;
  api.window_create = window_create;
  api.window_map = window_map;
  api.window_destroy = window_destroy;
  api.pass = pass;
  api.plan_create = plan_create;
  api.plan_run = plan_run;
  api.plan_destroy = plan_destroy;
  HandedOn<Backend>::fill(&api);
  return api;
}

}  // namespace
}  // namespace compose

const dw_backend_api& compose_api() {
  static constexpr dw_backend_api kTable = compose::make_table();
  return kTable;
}

}  // namespace distwrap::algo
