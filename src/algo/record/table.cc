// The decorator's table: every slot calls the slot below, and `submit` also
// records. The work cells below are the host's own, so completions bypass the
// decorator.
#include "algo/decorator.h"
#include "algo/record/record.h"
#include "algo/record/trace_file.h"
#include "distwrap/abi/read.h"
#include "sdk/guard.h"
#include "sdk/start.h"

#include <absl/strings/string_view.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

namespace distwrap::algo {
namespace record {
namespace {

struct Backend {
  dw_backend_api api = {};  // the table below
  dw_backend* below = nullptr;
  std::unique_ptr<TraceFile> file;

  const dw_backend_api& inner() const { return api; }
  dw_backend* inner_backend() const { return below; }
  static Backend& of(dw_backend* backend) {
    return *reinterpret_cast<Backend*>(backend);
  }
};

struct Setup {
  Backend& backend;
  dw_setup* below;
  uint64_t uid;
  int rank, size;

  static Setup& of(dw_setup* setup) { return *reinterpret_cast<Setup*>(setup); }
};

struct Comm {
  Backend& backend;
  dw_comm* below;
  uint64_t number;

  static Comm& of(dw_comm* comm) { return *reinterpret_cast<Comm*>(comm); }
};

// A prepared operation. Its arrays are the host's, and not looked at here.
struct Plan {
  Backend& backend;
  uint64_t comm;  // the communicator's number
  const dw_op op;
  dw_plan* below;

  static Plan& of(dw_plan* plan) { return *reinterpret_cast<Plan*>(plan); }
};

int32_t open_below(const dw_host_api* host, const dw_open_info* given,
                   dw_backend** backend, dw_error* error) {
  dw_open_info info;
  if (int32_t code =
          dw_read_struct(&info, sizeof info, given, DW_OPEN_INFO_SIZE_1_0))
    return code;
  if (info.n_inner == 0 || info.inner[0].api == nullptr)
    return fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT,
                "record needs a table below");
  auto opened = std::make_unique<Backend>();
  std::vector<dw_hint> hints;
  std::string path;
  for (uint64_t i = 0; i < info.n_hints; ++i) {
    const dw_hint& hint = info.hints[i];
    if (absl::string_view(hint.key.data, hint.key.size) == kTraceHint)
      path.assign(hint.value.data, hint.value.size);
    else
      hints.push_back(hint);
  }
  opened->file = TraceFile::open(path);
  if (opened->file == nullptr)
    return fail(error, DW_FAILED_PRECONDITION, DW_REASON_RUN_DIRECTORY,
                ("record: no trace can be written to " + path).c_str());
  opened->api = *info.inner[0].api;
  info.hints = hints.data();
  info.n_hints = hints.size();
  ++info.inner;
  --info.n_inner;
  if (int32_t code = opened->api.open(host, &info, &opened->below, error))
    return code;
  *backend = reinterpret_cast<dw_backend*>(opened.release());
  return DW_OK;
}

int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error) {
  return dw_sdk::guarded(
      "record", error, [&] { return open_below(host, info, backend, error); });
}

void close(dw_backend* backend) {
  Backend& closing = Backend::of(backend);
  closing.inner().close(closing.below);
  delete &closing;
}

int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n_rows,
             dw_error* error) {
  const Backend& asked = Backend::of(backend);
  return asked.inner().caps(asked.below, rows, n_rows, error);
}

int32_t setup_begin(dw_backend* opened, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  Backend& backend = Backend::of(opened);
  dw_setup_info read;
  if (int32_t code = read_setup(&read, info, error); code != DW_OK) return code;
  if (read.parent != nullptr) read.parent = Comm::of(read.parent).below;
  auto* const made = new (std::nothrow)
      Setup{backend, nullptr, read.uid, read.rank, read.size};
  if (made == nullptr) return no_memory(error);
  const int32_t code = backend.inner().setup_begin(backend.below, &read,
                                                   &made->below, out, error);
  if (code != DW_OK) {
    delete made;
    return code;
  }
  *setup = reinterpret_cast<dw_setup*>(made);
  return DW_OK;
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  Setup& step = Setup::of(setup);
  const dw_backend_api& inner = step.backend.inner();
  dw_setup_result built = {};
  int32_t code = inner.setup_step(step.below, in, n, out, &built, error);
  if (code == DW_OK) return code;
  if (code == DW_DONE) {
    auto* const comm = new (std::nothrow) Comm{step.backend, built.comm, 0};
    if (comm != nullptr) {
      comm->number =
          step.backend.file->add_group(step.uid, step.rank, step.size);
      *result = {reinterpret_cast<dw_comm*>(comm), nullptr};
    } else {
      code = no_memory(error);
      inner.comm_abort(built.comm, error);
      inner.comm_destroy(built.comm, 0, nullptr);
    }
  }
  delete &step;
  return code;
}

void setup_cancel(dw_setup* setup) {
  Setup& cancelled = Setup::of(setup);
  cancelled.backend.inner().setup_cancel(cancelled.below);
  delete &cancelled;
}

int32_t comm_abort(dw_comm* comm, const dw_error* why) {
  const Comm& aborted = Comm::of(comm);
  return aborted.backend.inner().comm_abort(aborted.below, why);
}

int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error) {
  Comm& ending = Comm::of(comm);
  const int32_t code =
      ending.backend.inner().comm_destroy(ending.below, deadline_ns, error);
  delete &ending;
  return code;
}

int32_t query(dw_comm* comm, const dw_op* op, dw_error* error) {
  const Comm& asked = Comm::of(comm);
  return asked.backend.inner().query(asked.below, op, error);
}

int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error) {
  const Comm& taking = Comm::of(comm);
  // Copied, because the host may free what `op` borrows once the operation is
  // in flight.
  const dw_op kept = *op;
  const int32_t code =
      taking.backend.inner().submit(taking.below, op, work, error);
  if (code != DW_AGAIN) taking.backend.file->add(taking.number, kept, 0, code);
  return code;
}

int32_t plan_create(dw_comm* comm, const dw_op* ops, uint64_t n, dw_plan** plan,
                    dw_error* error) {
  const Comm& prepares = Comm::of(comm);
  const dw_backend_api& inner = prepares.backend.inner();
  if (n != 1 || inner.plan_create == nullptr || inner.plan_run == nullptr ||
      inner.plan_destroy == nullptr)
    return unsupported(error, "nothing can be prepared below");
  auto* const made =
      new (std::nothrow) Plan{prepares.backend, prepares.number, *ops, nullptr};
  if (made == nullptr) return no_memory(error);
  const int32_t code =
      inner.plan_create(prepares.below, ops, n, &made->below, error);
  if (code != DW_OK) {
    delete made;
    return code;
  }
  *plan = reinterpret_cast<dw_plan*>(made);
  return DW_OK;
}

int32_t plan_run(dw_plan* plan, const dw_start* start, dw_work* work,
                 dw_error* error) {
  const Plan& runs = Plan::of(plan);
  dw_op op = runs.op;
  dw_apply_start(start, &op);
  const int32_t code =
      runs.backend.inner().plan_run(runs.below, start, work, error);
  if (code != DW_AGAIN) runs.backend.file->add(runs.comm, op, 0, code);
  return code;
}

int32_t plan_destroy(dw_plan* plan, dw_error* error) {
  const Plan* const ending = &Plan::of(plan);
  const int32_t code =
      ending->backend.inner().plan_destroy(ending->below, error);
  delete ending;
  return code;
}

int32_t submit_all(Backend& backend, const dw_group_item* items, uint64_t n,
                   dw_error* error) {
  std::vector<dw_group_item> below(items, items + n);
  std::vector<dw_op> kept;
  for (dw_group_item& item : below) {
    item.comm = Comm::of(item.comm).below;
    kept.push_back(*item.op);
  }
  const int32_t code =
      backend.inner().submit_group(backend.below, below.data(), n, error);
  if (code == DW_AGAIN) return code;
  const uint64_t set = backend.file->next_set();
  for (uint64_t i = 0; i < n; ++i)
    backend.file->add(Comm::of(items[i].comm).number, kept[i], set, code);
  return code;
}

int32_t submit_group(dw_backend* backend, const dw_group_item* items,
                     uint64_t n, dw_error* error) {
  return dw_sdk::guarded("a set of operations", error, [&] {
    return submit_all(Backend::of(backend), items, n, error);
  });
}

int32_t work_wait_stream(dw_comm* comm, dw_work* work, const dw_stream* stream,
                         dw_error* error) {
  const Comm& waits = Comm::of(comm);
  const auto wait_below = waits.backend.inner().work_wait_stream;
  return wait_below == nullptr
             ? unsupported(error, "there are no streams below")
             : wait_below(waits.below, work, stream, error);
}

int32_t stream_captured(dw_comm* comm, const dw_stream* stream,
                        int32_t* captured, dw_error* error) {
  const Comm& asks = Comm::of(comm);
  const auto ask_below = asks.backend.inner().stream_captured;
  *captured = 0;
  return ask_below == nullptr ? DW_OK
                              : ask_below(asks.below, stream, captured, error);
}

int32_t run_queued(dw_comm* comm, uint64_t seq) {
  const Comm& runs = Comm::of(comm);
  const auto run_below = runs.backend.inner().run_queued;
  return run_below == nullptr ? DW_UNIMPLEMENTED : run_below(runs.below, seq);
}

int32_t progress(dw_backend* backend) {
  const Backend& works = Backend::of(backend);
  return works.inner().progress == nullptr
             ? 0
             : works.inner().progress(works.below);
}

constexpr dw_backend_api make_table() {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags =
      DW_BACKEND_DECORATOR | DW_BACKEND_HOST_WATCHES | DW_BACKEND_SUBMIT_BESIDE;
  api.devices = ~uint32_t{0};
  api.name = {"record", 6};
  api.version = {"1.0", 3};
  api.open = open;
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
  api.work_wait_stream = work_wait_stream;
  api.stream_captured = stream_captured;
  api.run_queued = run_queued;
  api.plan_create = plan_create;
  api.plan_run = plan_run;
  api.plan_destroy = plan_destroy;
  HandedOn<Backend>::fill(&api);
  return api;
}

}  // namespace
}  // namespace record

const dw_backend_api& record_api() {
  static constexpr dw_backend_api kTable = record::make_table();
  return kTable;
}

}  // namespace distwrap::algo
