#include "fake_nccl.h"

#include "distwrap/abi/note.h"
#include "distwrap/abi/read.h"
#include "sdk/fail.h"
#include "sdk/shapes.h"

#include <atomic>
#include <map>
#include <mutex>

extern "C" const dw_backend_api* dw_plugin_query_v1_nccl(const dw_host_info*);

namespace distwrap::nccl_test {
namespace {

// The version that `open_here` opens; tests of several come one by one.
std::atomic<int> current_version{0};
std::atomic<int> next_device{0};

int32_t open_here(const dw_host_api* host, const dw_open_info* given,
                  dw_backend** backend, dw_error* error) {
  dw_open_info info;
  if (int32_t code =
          dw_read_struct(&info, sizeof info, given, DW_OPEN_INFO_SIZE_1_0);
      code != DW_OK || info.device_type != DW_DEVICE_CPU)
    return nccl().open(host, given, backend, error);
  info.device_type = DW_DEVICE_CUDA;
  info.device_id = next_device++ % 64;
  const std::string library = fake_nccl(current_version);
  const std::string driver = fake_driver();
  std::vector<dw_hint> hints(info.hints, info.hints + info.n_hints);
  hints.push_back({{"nccl_library", 12}, {library.data(), library.size()}});
  hints.push_back({{"cuda_driver", 11}, {driver.data(), driver.size()}});
  info.hints = hints.data();
  info.n_hints = hints.size();
  return nccl().open(host, &info, backend, error);
}

// The suite begins operations on one rank before the others come, and NCCL
// connects inside the first of them: a barrier at the end of the setup, which
// ends in the same round on all ranks, has connected them all.
int32_t step_here(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                  dw_setup_result* result, dw_error* error) {
  const int32_t code = nccl().setup_step(setup, in, n, out, result, error);
  if (code != DW_DONE) return code;
  dw_op barrier = {};
  barrier.struct_size = sizeof barrier;
  barrier.kind = DW_OP_BARRIER;
  barrier.flags = DW_FLAG_CALLER_WAITS;
  barrier.timeout_ns = 10'000'000'000;
  dw_error late;
  nccl().submit(result->comm, &barrier, nullptr, &late);
  return code;
}

// A backend of host memory has no streams.
int32_t query_here(dw_comm* comm, const dw_op* op, dw_error* error) {
  return op != nullptr && op->stream.device_type == DW_DEVICE_CUDA
             ? dw_unsupported(error, "no streams")
             : nccl().query(comm, op, error);
}
int32_t submit_here(dw_comm* comm, const dw_op* op, dw_work* work,
                    dw_error* error) {
  return op != nullptr && op->stream.device_type == DW_DEVICE_CUDA
             ? dw_unsupported(error, "no streams")
             : nccl().submit(comm, op, work, error);
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
    // NCCL's messages have no tags and come in order, as the suite's do not.
    row.ops &= ~dw_sdk::kMessages;
    // Windows are on memory of the device alone.
    row.ops &=
        ~(DW_BIT(DW_OP_PUT) | DW_BIT(DW_OP_SIGNAL) | DW_BIT(DW_OP_WAIT_SIGNAL));
    // Nothing of these exists without a stream of the caller's.
    row.flags &= ~uint32_t{DW_FLAG_ASIDE | DW_FLAG_CAPTURE |
                           DW_FLAG_SCALE_ON_DEVICE | DW_FLAG_REGISTERED};
  }
  *rows = mine.data();
  return DW_OK;
}

}  // namespace

const dw_backend_api& nccl() {
  static const dw_backend_api* const kTable = [] {
    dw_host_info host = {};
    host.struct_size = sizeof host;
    host.abi_major = DW_ABI_MAJOR;
    return dw_plugin_query_v1_nccl(&host);
  }();
  return *kTable;
}

std::string fake_nccl(int version) {
  return std::string(FAKE_LIBRARIES "/libdistwrap_fake_nccl_") +
         std::to_string(version) + ".so";
}

std::string fake_driver() { return FAKE_LIBRARIES "/libdistwrap_fake_cuda.so"; }

std::vector<int> versions() { return {21903, 22304, 22803, 22902, 23203}; }

void use_devices_from(int device) { next_device = device; }

const dw_backend_api& on_host_memory(int version) {
  current_version = version;
  fakes::gpu::allow_host_memory(true);
  static const dw_backend_api table = [] {
    dw_backend_api api = nccl();
    api.devices = DW_BIT(DW_DEVICE_CPU);
    api.open = open_here;
    api.caps = caps_here;
    api.query = query_here;
    api.submit = submit_here;
    api.setup_step = step_here;
    return api;
  }();
  return table;
}

}  // namespace distwrap::nccl_test
