// The functions of the CUDA driver that the nccl backend uses, and those that
// its tests use, over the fake devices of this process.
#include "fakes/gpu/driver.h"

#include "fakes/gpu/memory.h"
#include "fakes/gpu/stream.h"
#include "nccl/cuda_types.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

struct CUctx_st {
  int device = 0;
};

namespace fakes::gpu {
namespace {

constexpr int kDevices = 64;

struct Machine {
  std::mutex mutex;
  std::atomic<int> devices{kDevices}, capability{9}, version{12080};
  std::atomic<int> events{0};
  CUctx_st contexts[kDevices];
  int retained[kDevices] = {};
  std::map<int, std::unique_ptr<CUstream_st>> legacy;
  struct Capture {
    int mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id begun_by;
  };
  std::map<const CUstream_st*, Capture> captures;

  Machine() {
    for (int i = 0; i < kDevices; ++i) contexts[i].device = i;
  }
};
Machine& machine() {
  static Machine* const kMachine = new Machine;
  return *kMachine;
}

thread_local std::vector<CUctx_st*> contexts;
thread_local int capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

int no_context(const char* call) {
  broken("no context", std::string(call) + " without a current context");
  return CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

int current_device() { return contexts.empty() ? -1 : contexts.back()->device; }

bool leaves_captures_alone(const char* call) {
  if (capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  bool ends_one = false;
  {
    std::lock_guard<std::mutex> lock(machine().mutex);
    for (const auto& [stream, capture] : machine().captures)
      ends_one |= capture.begun_by == std::this_thread::get_id()
                      ? capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED
                      : capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                            capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  }
  if (ends_one)
    broken("forbidden call in a capture",
           std::string(call) + " while a stream is captured");
  return !ends_one;
}

CUstream_st* stream_of(CUstream_st* handle) {
  if (handle == nullptr) {
    broken("null stream", "the null stream was used");
    return nullptr;
  }
  if (handle != reinterpret_cast<CUstream_st*>(1)) return handle;
  const int device = current_device();
  if (device < 0) {
    no_context("the legacy default stream");
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(machine().mutex);
  std::unique_ptr<CUstream_st>& stream = machine().legacy[device];
  if (stream == nullptr) stream = std::make_unique<CUstream_st>(device);
  return stream.get();
}

CUctx_st* context_of(int device) { return &machine().contexts[device]; }

void set_machine(int devices, int capability) {
  machine().devices = devices;
  machine().capability = capability;
}

void set_driver_version(int version) { machine().version = version; }
int driver_version() { return machine().version; }
int events_recorded() { return machine().events; }

int contexts_in_use() {
  std::lock_guard<std::mutex> lock(machine().mutex);
  int n = 0;
  for (const int retained : machine().retained)
    if (retained > 0) ++n;
  return n;
}

void begin_capture(CUstream_st* stream, Graph* graph, int mode) {
  {
    std::lock_guard<std::mutex> lock(machine().mutex);
    machine().captures[stream] = {mode, std::this_thread::get_id()};
  }
  stream->capture(graph);
}

void end_capture(CUstream_st* stream) {
  stream->capture(nullptr);
  std::lock_guard<std::mutex> lock(machine().mutex);
  machine().captures.erase(stream);
}

void launch(const Graph& graph, CUstream_st* stream) {
  for (const Task& task : graph.tasks) stream->put(task);
}

}  // namespace fakes::gpu

using namespace fakes::gpu;

extern "C" {

FAKE_EXPORT int cuInit(unsigned) {
  return machine().devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = machine().version;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuGetErrorName(int result, const char** name) {
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
      *name = "CUDA_ERROR_NO_DEVICE";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_HANDLE:
      *name = "CUDA_ERROR_INVALID_HANDLE";
      return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return CUDA_SUCCESS;
    default:
      *name = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}
FAKE_EXPORT int cuDeviceGetCount(int* count) {
  *count = machine().devices;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= machine().devices)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuDeviceGetAttribute(int* value, int attribute,
                                     CUdevice /*device*/) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = machine().capability;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
FAKE_EXPORT int cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (const int planned = planned_driver_failure()) return planned;
  *uuid = {};
  uuid->bytes[0] = static_cast<unsigned char>(device + 1);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuDevicePrimaryCtxRetain(CUctx_st** context, CUdevice device) {
  if (const int planned = planned_driver_failure()) return planned;
  std::lock_guard<std::mutex> lock(machine().mutex);
  ++machine().retained[device];
  *context = &machine().contexts[device];
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  --machine().retained[device];
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuCtxPushCurrent_v2(CUctx_st* context) {
  contexts.push_back(context);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuCtxPopCurrent_v2(CUctx_st** context) {
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuCtxSetCurrent(CUctx_st* context) {
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuCtxGetCurrent(CUctx_st** context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  if (const int planned = planned_driver_failure()) return planned;
  if (current_device() < 0) return no_context("cuMemAlloc");
  if (!leaves_captures_alone("cuMemAlloc"))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  void* const made = allocate(current_device(), bytes);
  *address = reinterpret_cast<CUdeviceptr>(made);
  return made == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemFree_v2(CUdeviceptr address) {
  if (!leaves_captures_alone("cuMemFree"))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return release(reinterpret_cast<void*>(address)) ? CUDA_SUCCESS
                                                   : CUDA_ERROR_INVALID_VALUE;
}
FAKE_EXPORT int cuPointerGetAttribute(void* value, int attribute,
                                      CUdeviceptr address) {
  const int device = device_of(reinterpret_cast<const void*>(address));
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE;
  else
    *static_cast<int*>(value) = device;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamCreate(CUstream_st** stream, unsigned) {
  if (const int planned = planned_driver_failure()) return planned;
  if (current_device() < 0) return no_context("cuStreamCreate");
  *stream = new CUstream_st(current_device());
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamDestroy_v2(CUstream_st* stream) {
  delete stream;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamGetCtx(CUstream_st* handle, CUctx_st** context) {
  if (const int planned = planned_driver_failure()) return planned;
  const CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *context = context_of(stream->device);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamIsCapturing(CUstream_st* handle, int* status) {
  if (const int planned = planned_driver_failure()) return planned;
  const CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *status = stream->is_capturing() ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                   : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamWaitEvent(CUstream_st* handle, CUevent_st* event,
                                  unsigned) {
  if (const int planned = planned_driver_failure()) return planned;
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Moment> moment;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    moment = event->last;
    if (stream->graph() != event->graph) {
      broken("a capture mixed with other work",
             "a stream waits for an event of another capture, or of none");
      return CUDA_ERROR_CAPTURED_EVENT;
    }
  }
  // An event that was never recorded has happened. A graph of this fake is one
  // sequence, so a wait inside it needs nothing.
  if (moment != nullptr && stream->graph() == nullptr)
    stream->put([moment] { moment->wait(); });
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  if (!leaves_captures_alone("cuMemHostAlloc"))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *address == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemFreeHost(void* address) {
  if (!leaves_captures_alone("cuMemFreeHost"))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::free(address);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamWriteValue32_v2(CUstream_st* handle,
                                        CUdeviceptr address, uint32_t value,
                                        unsigned) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  stream->put([word = reinterpret_cast<std::atomic<uint32_t>*>(address),
               value] { *word = value; });
  return CUDA_SUCCESS;
}

FAKE_EXPORT int cuEventCreate(CUevent_st** event, unsigned flags) {
  if (const int planned = planned_driver_failure()) return planned;
  if (current_device() < 0) return no_context("cuEventCreate");
  if ((flags & CU_EVENT_DISABLE_TIMING) == 0)
    broken("an event with a timer", "it makes the device wait for the host");
  *event = new CUevent_st;
  (*event)->device = current_device();
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuEventDestroy_v2(CUevent_st* event) {
  delete event;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuEventRecord(CUevent_st* event, CUstream_st* handle) {
  if (const int planned = planned_driver_failure()) return planned;
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->device != event->device) {
    broken("wrong context", "an event and its stream are of two devices");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->unlaunched > 0)
    broken("event before launch",
           "an event was recorded before NCCL has launched");
  ++machine().events;
  const auto moment = std::make_shared<Moment>();
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->last = moment;
    event->graph = stream->graph();
  }
  if (stream->graph() == nullptr) stream->put([moment] { moment->happen(); });
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuEventQuery(CUevent_st* event) {
  if (!leaves_captures_alone("cuEventQuery"))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::shared_ptr<Moment> moment;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    moment = event->last;
    if (event->graph != nullptr) {
      broken("question for a captured event", "it never happens by itself");
      return CUDA_ERROR_CAPTURED_EVENT;
    }
  }
  return moment == nullptr || moment->has_happened() ? CUDA_SUCCESS
                                                     : CUDA_ERROR_NOT_READY;
}

}  // extern "C"
