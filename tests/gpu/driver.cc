#include "driver.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>

namespace distwrap::gpu_test {
namespace {

using Address = unsigned long long;

#define GPU_FUNCTIONS(X)                                      \
  X(cuInit, (unsigned))                                       \
  X(cuDriverGetVersion, (int*))                               \
  X(cuDeviceGetCount, (int*))                                 \
  X(cuDeviceGet, (int*, int))                                 \
  X(cuDeviceGetName, (char*, int, int))                       \
  X(cuDevicePrimaryCtxRetain, (void**, int))                  \
  X(cuCtxSetCurrent, (void*))                                 \
  X(cuCtxGetCurrent, (void**))                                \
  X(cuMemGetInfo_v2, (size_t*, size_t*))                      \
  X(cuMemAlloc_v2, (Address*, size_t))                        \
  X(cuMemFree_v2, (Address))                                  \
  X(cuMemcpyHtoD_v2, (Address, const void*, size_t))          \
  X(cuMemcpyDtoH_v2, (void*, Address, size_t))                \
  X(cuMemcpyDtoDAsync_v2, (Address, Address, size_t, void*))  \
  X(cuMemsetD8_v2, (Address, unsigned char, size_t))          \
  X(cuMemsetD8Async, (Address, unsigned char, size_t, void*)) \
  X(cuStreamCreate, (void**, unsigned))                       \
  X(cuStreamDestroy_v2, (void*))                              \
  X(cuStreamSynchronize, (void*))                             \
  X(cuStreamQuery, (void*))                                   \
  X(cuLaunchHostFunc, (void*, void (*)(void*), void*))        \
  X(cuStreamBeginCapture_v2, (void*, int))                    \
  X(cuStreamEndCapture, (void*, void**))                      \
  X(cuGraphInstantiateWithFlags, (void**, void*, Address))    \
  X(cuGraphLaunch, (void*, void*))                            \
  X(cuGraphExecDestroy, (void*))                              \
  X(cuGraphDestroy, (void*))                                  \
  X(cuEventCreate, (void**, unsigned))                        \
  X(cuEventDestroy_v2, (void*))                               \
  X(cuEventRecord, (void*, void*))                            \
  X(cuEventSynchronize, (void*))                              \
  X(cuEventElapsedTime, (float*, void*, void*))

constexpr int kNotReady = 600;        // CUDA_ERROR_NOT_READY
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

struct Functions {
#define DECLARE(name, parameters) int(*name) parameters = nullptr;
  GPU_FUNCTIONS(DECLARE)
#undef DECLARE
  std::string missing;

  Functions() {
    const char* const file = std::getenv("TEST_CUDA_DRIVER");
    void* const library =
        dlopen(file != nullptr ? file : "libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
      missing = "no CUDA driver: libcuda.so.1 cannot be opened";
      return;
    }
#define LOAD(name, parameters) \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name));
    GPU_FUNCTIONS(LOAD)
#undef LOAD
    if (cuInit == nullptr) {
      missing = "the CUDA driver lacks its functions";
      return;
    }
    int count = 0;
    if (cuInit(0) != 0 || cuDeviceGetCount(&count) != 0 || count == 0)
      missing = "the CUDA driver sees no GPU";
  }
};

const Functions& cuda() {
  static const Functions* const functions = new Functions;
  return *functions;
}

// A failing call of a test's own is no finding about distwrap: it ends the
// program.
void must(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "gpu test: %s failed with CUDA's error %d\n", what,
               result);
  std::abort();
}
#define MUST(call) must(cuda().call, #call)

}  // namespace

std::string why_no_gpu() { return cuda().missing; }

int count_devices() {
  int count = 0;
  MUST(cuDeviceGetCount(&count));
  return count;
}

std::string device_text(int device) {
  char name[128] = {};
  int handle = 0, version = 0;
  MUST(cuDeviceGet(&handle, device));
  MUST(cuDeviceGetName(name, sizeof name, handle));
  MUST(cuDriverGetVersion(&version));
  return std::string(name) + ", CUDA driver " + std::to_string(version / 1000) +
         "." + std::to_string(version % 1000 / 10);
}

void use_device(int device) {
  static std::mutex mutex;
  static std::map<int, void*> contexts;
  const std::lock_guard<std::mutex> lock(mutex);
  void*& context = contexts[device];
  if (context == nullptr) {
    int handle = 0;
    MUST(cuDeviceGet(&handle, device));
    MUST(cuDevicePrimaryCtxRetain(&context, handle));
  }
  MUST(cuCtxSetCurrent(context));
}

size_t free_bytes(int device) {
  use_device(device);
  size_t unused = 0, all = 0;
  MUST(cuMemGetInfo_v2(&unused, &all));
  return unused;
}

bool has_context() {
  void* context = nullptr;
  MUST(cuCtxGetCurrent(&context));
  return context != nullptr;
}

DeviceBytes::DeviceBytes(int device, size_t bytes, unsigned char fill)
    : device_(device), bytes_(bytes) {
  use_device(device_);
  Address made = 0;
  MUST(cuMemAlloc_v2(&made, bytes_ == 0 ? 1 : bytes_));
  address_ = made;
  MUST(cuMemsetD8_v2(address_, fill, bytes_ == 0 ? 1 : bytes_));
  MUST(cuStreamSynchronize(nullptr));
}

DeviceBytes::~DeviceBytes() {
  use_device(device_);
  MUST(cuMemFree_v2(address_));
}

void DeviceBytes::upload(const void* from) {
  use_device(device_);
  if (bytes_ == 0) return;
  MUST(cuMemcpyHtoD_v2(address_, from, bytes_));
  MUST(cuStreamSynchronize(nullptr));
}

void DeviceBytes::download(void* to) const {
  use_device(device_);
  if (bytes_ != 0) MUST(cuMemcpyDtoH_v2(to, address_, bytes_));
}

void Gate::open() {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return open_; });
}

GpuStream::GpuStream(int device) : device_(device) {
  use_device(device_);
  MUST(cuStreamCreate(&stream_, kNonBlocking));
}

GpuStream::~GpuStream() {
  use_device(device_);
  MUST(cuStreamDestroy_v2(stream_));
}

void GpuStream::put(Gate& gate) {
  MUST(cuLaunchHostFunc(
      stream_, [](void* at) { static_cast<Gate*>(at)->wait(); }, &gate));
}

void GpuStream::set(DeviceBytes& bytes, unsigned char value) {
  MUST(cuMemsetD8Async(reinterpret_cast<Address>(bytes.data()), value,
                       bytes.size(), stream_));
}

void GpuStream::copy(DeviceBytes& to, const DeviceBytes& from) {
  MUST(cuMemcpyDtoDAsync_v2(reinterpret_cast<Address>(to.data()),
                            reinterpret_cast<Address>(from.data()), from.size(),
                            stream_));
}

void GpuStream::synchronize() { MUST(cuStreamSynchronize(stream_)); }

bool GpuStream::is_idle() const {
  const int result = cuda().cuStreamQuery(stream_);
  if (result != kNotReady) must(result, "cuStreamQuery");
  return result == 0;
}

void GpuStream::begin_capture(CaptureMode mode) {
  MUST(cuStreamBeginCapture_v2(stream_, static_cast<int>(mode)));
}

std::unique_ptr<GpuGraph> GpuStream::end_capture() {
  void* captured = nullptr;
  MUST(cuStreamEndCapture(stream_, &captured));
  return std::make_unique<GpuGraph>(captured);
}

GpuGraph::GpuGraph(void* captured) : graph_(captured) {
  MUST(cuGraphInstantiateWithFlags(&executable_, graph_, 0));
}

GpuGraph::~GpuGraph() {
  MUST(cuGraphExecDestroy(executable_));
  MUST(cuGraphDestroy(graph_));
}

void GpuGraph::launch(GpuStream& stream) {
  MUST(cuGraphLaunch(executable_, stream.native()));
}

GpuTimer::GpuTimer(int device) {
  use_device(device);
  MUST(cuEventCreate(&begin_, 0));
  MUST(cuEventCreate(&end_, 0));
}

GpuTimer::~GpuTimer() {
  MUST(cuEventDestroy_v2(begin_));
  MUST(cuEventDestroy_v2(end_));
}

void GpuTimer::begin(GpuStream& stream) {
  MUST(cuEventRecord(begin_, stream.native()));
}

void GpuTimer::end(GpuStream& stream) {
  MUST(cuEventRecord(end_, stream.native()));
}

double GpuTimer::microseconds() const {
  float milliseconds = 0;
  MUST(cuEventSynchronize(end_));
  MUST(cuEventElapsedTime(&milliseconds, begin_, end_));
  return 1000.0 * static_cast<double>(milliseconds);
}

}  // namespace distwrap::gpu_test
