// The backend as one of host memory: each call runs on copies of its buffers in
// memory of the device, in host order or on a stream.
#include "device_copies.h"
#include "distwrap/abi/read.h"
#include "fake_nccl.h"
#include "fakes/gpu/memory.h"
#include "host.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"
#include "sdk/shapes.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace distwrap::nccl_test {
namespace {

// The version that `open_here` opens; tests of several come one by one.
std::atomic<int> current_version{0};
std::atomic<int> next_device{0};

// The slots know this of an object of the backend.
struct Place {
  dw_backend* backend = nullptr;
  int device = 0, size = 0;
  std::shared_ptr<CUstream_st> stream;  // communicators have one
};

// A call that has not returned holds them, too: it may complete before.
using Copies = std::shared_ptr<DeviceCopies>;

// The backends, setups, communicators and works in use.
struct Known {
  std::mutex mutex;
  std::map<const void*, Place> places;
  std::map<dw_work*, Copies> pending;

  Place at(const void* object) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = places.find(object);
    return found == places.end() ? Place{} : found->second;
  }
  void set(const void* object, Place place) {
    const std::lock_guard<std::mutex> lock(mutex);
    places[object] = std::move(place);
  }
  Place take(const void* object) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto node = places.extract(object);
    return node.empty() ? Place{} : node.mapped();
  }
  Copies take_pending(dw_work* work) {
    const std::lock_guard<std::mutex> lock(mutex);
    auto node = pending.extract(work);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
};
Known& known() {
  static Known* const kKnown = new Known;
  return *kKnown;
}

int32_t wrote_beside(dw_error* error) {
  return dw_fail(error, DW_DATA_LOSS, DW_REASON_NONE, -1, 0,
                 "the device wrote beside the buffers");
}

void complete_here(dw_work* work, int32_t code, const dw_error* error) {
  dw_error beside = {};
  const Copies copies = known().take_pending(work);
  if (copies != nullptr && !copies->give_back()) {
    code = wrote_beside(&beside);
    error = &beside;
  }
  conformance::host_table().complete(work, code, error);
}

int32_t open_here(const dw_host_api*, const dw_open_info* given,
                  dw_backend** backend, dw_error* error) {
  static const dw_host_api kHost = [] {
    dw_host_api host = conformance::host_table();
    host.complete = complete_here;
    return host;
  }();
  dw_open_info info;
  if (int32_t code =
          dw_read_struct(&info, sizeof info, given, DW_OPEN_INFO_SIZE_1_0);
      code != DW_OK || info.device_type != DW_DEVICE_CPU)
    return nccl().open(&kHost, given, backend, error);
  info.device_type = DW_DEVICE_CUDA;
  info.device_id = next_device++ % 64;
  const std::string library = fake_nccl(current_version);
  const std::string driver = fake_driver();
  std::vector<dw_hint> hints(info.hints, info.hints + info.n_hints);
  hints.push_back({{"nccl_library", 12}, {library.data(), library.size()}});
  hints.push_back({{"cuda_driver", 11}, {driver.data(), driver.size()}});
  info.hints = hints.data();
  info.n_hints = hints.size();
  const int32_t code = nccl().open(&kHost, &info, backend, error);
  if (code == DW_OK)
    known().set(*backend, {*backend, info.device_id, 0, nullptr});
  return code;
}

int32_t begin_here(dw_backend* backend, const dw_setup_info* given,
                   dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info info;
  if (dw_read_struct(&info, sizeof info, given, DW_SETUP_INFO_SIZE_1_0) !=
      DW_OK)
    return nccl().setup_begin(backend, given, setup, out, error);
  // The suite's messages have numbers, which NCCL ignores.
  std::vector<dw_hint> hints(info.hints, info.hints + info.n_hints);
  hints.push_back({{"tags", 4}, {"in_order", 8}});
  info.hints = hints.data();
  info.n_hints = hints.size();
  const int32_t code = nccl().setup_begin(backend, &info, setup, out, error);
  if (code == DW_OK)
    known().set(*setup,
                {backend, known().at(backend).device, info.size, nullptr});
  return code;
}

dw_op first_op(uint16_t kind) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.timeout_ns = 10'000'000'000;
  op.in.dtype = op.out.dtype = {1, 8, 1};
  return op;
}

// The suite begins operations on one rank before the others come, and NCCL
// connects inside the first of them. A barrier and a message between any two
// ranks at the end of the setup, which ends in the same round on all ranks,
// have connected them all.
void connect(dw_backend* backend, dw_comm* comm, const Place& place) {
  const dw_op barrier = first_op(DW_OP_BARRIER);
  nccl().submit(comm, &barrier, nullptr, nullptr);
  void* const byte = fakes::gpu::allocate(place.device, 1);
  std::vector<dw_op> messages;
  for (int32_t peer = 0; peer < place.size; ++peer)
    for (const uint16_t kind : {DW_OP_SEND, DW_OP_RECV}) {
      dw_op op = first_op(kind);
      op.peer = peer;
      dw_buf& buffer = kind == DW_OP_SEND ? op.in : op.out;
      buffer.data = byte;
      buffer.count = 1;
      messages.push_back(op);
    }
  std::vector<dw_group_item> items;
  for (const dw_op& op : messages) items.push_back({comm, &op, nullptr});
  nccl().submit_group(backend, items.data(), items.size(), nullptr);
  fakes::gpu::release(byte);
}

int32_t step_here(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                  dw_setup_result* result, dw_error* error) {
  const int32_t code = nccl().setup_step(setup, in, n, out, result, error);
  if (code == DW_OK) return code;
  Place place = known().take(setup);
  if (code != DW_DONE) return code;
  place.stream = std::make_shared<CUstream_st>(place.device);
  connect(place.backend, result->comm, place);
  known().set(result->comm, std::move(place));
  return code;
}

void cancel_here(dw_setup* setup) {
  known().take(setup);
  nccl().setup_cancel(setup);
}

int32_t destroy_here(dw_comm* comm, int64_t deadline_ns, dw_error* error) {
  const Place place = known().take(comm);
  return nccl().comm_destroy(comm, deadline_ns, error);
}

// A backend of host memory has no streams.
int32_t query_here(dw_comm* comm, const dw_op* op, dw_error* error) {
  return op != nullptr && op->stream.device_type == DW_DEVICE_CUDA
             ? dw_unsupported(error, "no streams")
             : nccl().query(comm, op, error);
}

// Copies for an operation; none where the backend refuses it, which it does
// before it looks at any memory. Of four collectives two are on a stream, one
// of them aside.
Copies copies_for(dw_comm* comm, const dw_op* given) {
  dw_op space;
  const dw_op* op;
  if (dw_read_op(&space, &op, given) != DW_OK || op->window != nullptr ||
      nccl().query(comm, given, nullptr) > DW_OK)
    return nullptr;
  const Place place = known().at(comm);
  auto copies = std::make_shared<DeviceCopies>(*op, place.device, place.size,
                                               op->seq % 3 == 0);
  if (op->seq % 2 == 1) {
    copies->op().stream = {DW_DEVICE_CUDA, place.device, place.stream.get()};
    if (op->seq % 4 == 1) copies->op().flags |= DW_FLAG_ASIDE;
  }
  return copies;
}

// Calls `submit` for operations that have these copies and complete `works`.
template <typename Submit>
int32_t with_copies(const std::vector<Copies>& copies,
                    const std::vector<dw_work*>& works, dw_error* error,
                    Submit submit) {
  {
    const std::lock_guard<std::mutex> lock(known().mutex);
    for (size_t i = 0; i < works.size(); ++i)
      if (works[i] != nullptr) known().pending[works[i]] = copies[i];
  }
  int32_t code = submit();
  if (code == DW_OK) return code;
  for (size_t i = 0; i < works.size(); ++i) {
    if (works[i] != nullptr) known().take_pending(works[i]);
    if (!copies[i]->give_back()) code = wrote_beside(error);
  }
  return code;
}

int32_t submit_here(dw_comm* comm, const dw_op* op, dw_work* work,
                    dw_error* error) {
  if (op != nullptr && op->stream.device_type == DW_DEVICE_CUDA)
    return dw_unsupported(error, "no streams");
  const Copies copies = copies_for(comm, op);
  if (copies == nullptr) return nccl().submit(comm, op, work, error);
  return with_copies({copies}, {work}, error, [&] {
    return nccl().submit(comm, &copies->op(), work, error);
  });
}

int32_t submit_group_here(dw_backend* backend, const dw_group_item* items,
                          uint64_t n, dw_error* error) {
  std::vector<Copies> copies;
  std::vector<dw_group_item> on_device(items, items + n);
  std::vector<dw_work*> works;
  for (dw_group_item& item : on_device) {
    copies.push_back(copies_for(item.comm, item.op));
    if (copies.back() == nullptr)
      return nccl().submit_group(backend, items, n, error);
    item.op = &copies.back()->op();
    works.push_back(item.work);
  }
  return with_copies(copies, works, error, [&] {
    return nccl().submit_group(backend, on_device.data(), n, error);
  });
}

int32_t caps_here(dw_backend* backend, const dw_caps_row** rows, uint64_t* n,
                  dw_error* error) {
  static std::mutex mutex;
  static std::map<dw_backend*, std::vector<dw_caps_row>> made;
  const dw_caps_row* all;
  if (int32_t code = nccl().caps(backend, &all, n, error)) return code;
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<dw_caps_row>& mine = made[backend];
  mine.assign(all, all + *n);
  for (dw_caps_row& row : mine) {
    row.memory = DW_BIT(DW_DEVICE_CPU);
    // Windows are on memory of the device alone.
    row.ops &=
        ~(DW_BIT(DW_OP_PUT) | DW_BIT(DW_OP_SIGNAL) | DW_BIT(DW_OP_WAIT_SIGNAL));
    // The suite has no streams and no memory of the backend.
    row.flags &= ~uint32_t{DW_FLAG_ASIDE | DW_FLAG_CAPTURE |
                           DW_FLAG_SCALE_ON_DEVICE | DW_FLAG_REGISTERED};
  }
  *rows = mine.data();
  return DW_OK;
}

}  // namespace

void use_devices_from(int device) { next_device = device; }

const dw_backend_api& on_host_memory(int version) {
  current_version = version;
  fakes::gpu::allow_host_memory(false);
  static const dw_backend_api table = [] {
    dw_backend_api api = nccl();
    api.devices = DW_BIT(DW_DEVICE_CPU);
    api.open = open_here;
    api.caps = caps_here;
    api.query = query_here;
    api.submit = submit_here;
    api.submit_group = submit_group_here;
    api.setup_begin = begin_here;
    api.setup_step = step_here;
    api.setup_cancel = cancel_here;
    api.comm_destroy = destroy_here;
    return api;
  }();
  return table;
}

}  // namespace distwrap::nccl_test
