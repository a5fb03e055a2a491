// The functions of the CUDA driver that a program with a GPU calls itself, for
// the tests that are written for real ones: copies, memsets, host functions and
// graphs.
#include "fakes/gpu/driver.h"
#include "fakes/gpu/memory.h"
#include "fakes/gpu/stream.h"
#include "nccl/cuda_types.h"

#include <cstdio>
#include <cstring>

using namespace fakes::gpu;

namespace {

char* reach_at(CUdeviceptr address, size_t bytes) {
  void* const at = reinterpret_cast<void*>(address);
  return reach(device_of(at), at, bytes);
}

// A task for the device on memory that stays in use until it has run.
int put(CUstream_st* handle, CUdeviceptr memory, Task task) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->is_capturing()) {
    stream->put(std::move(task));
    return CUDA_SUCCESS;
  }
  stream->put([held = hold(reinterpret_cast<void*>(memory)),
               task = std::move(task)] { task(); });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

FAKE_EXPORT int cuDeviceGetName(char* name, int bytes, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(bytes), "fake GPU %d", device);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemGetInfo_v2(size_t* unused, size_t* all) {
  *unused = free_memory();
  *all = kDeviceMemory;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemcpyHtoD_v2(CUdeviceptr to, const void* from,
                                size_t bytes) {
  std::memcpy(reach_at(to, bytes), from, bytes);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  std::memcpy(to, reach_at(from, bytes), bytes);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from,
                                     size_t bytes, CUstream_st* stream) {
  return put(stream, to, [=] {
    std::memcpy(reach_at(to, bytes), reach_at(from, bytes), bytes);
  });
}
FAKE_EXPORT int cuMemsetD8_v2(CUdeviceptr to, unsigned char value,
                              size_t bytes) {
  std::memset(reach_at(to, bytes), value, bytes);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                size_t bytes, CUstream_st* stream) {
  return put(stream, to,
             [=] { std::memset(reach_at(to, bytes), value, bytes); });
}
FAKE_EXPORT int cuStreamSynchronize(CUstream_st* handle) {
  if (!leaves_captures_alone("cuStreamSynchronize"))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  // The null stream has no work here: every function above that takes no stream
  // has ended when it returns.
  if (handle == nullptr) return CUDA_SUCCESS;
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  stream->synchronize();
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamQuery(CUstream_st* handle) {
  if (!leaves_captures_alone("cuStreamQuery"))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return stream->is_idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
FAKE_EXPORT int cuLaunchHostFunc(CUstream_st* handle, void (*f)(void*),
                                 void* data) {
  return put(handle, 0, [=] { f(data); });
}
FAKE_EXPORT int cuStreamBeginCapture_v2(CUstream_st* stream, int mode) {
  begin_capture(stream, new Graph, mode);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuStreamEndCapture(CUstream_st* stream, Graph** graph) {
  *graph = stream->graph();
  end_capture(stream);
  return CUDA_SUCCESS;
}
// The captured graph is the one that is launched.
FAKE_EXPORT int cuGraphInstantiateWithFlags(Graph** made, Graph* graph,
                                            unsigned long long) {
  *made = new Graph(*graph);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuGraphLaunch(Graph* graph, CUstream_st* stream) {
  launch(*graph, stream);
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuGraphExecDestroy(Graph* graph) {
  delete graph;
  return CUDA_SUCCESS;
}
FAKE_EXPORT int cuGraphDestroy(Graph* graph) {
  delete graph;
  return CUDA_SUCCESS;
}

}  // extern "C"
