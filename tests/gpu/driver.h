// The GPU as the tests use it: the CUDA driver, opened at run time, so that the
// tests are built where there is no CUDA. They have no kernels of their own:
// copies, memsets and host functions stand in for them.
//
//   if (!why_no_gpu().empty()) return;
//   DeviceBytes x(device, 8);
//   GpuStream stream(device);
//   Gate gate;
//   stream.put(gate);  // what comes later waits for gate.open()
#ifndef DISTWRAP_TESTS_GPU_DRIVER_H_
#define DISTWRAP_TESTS_GPU_DRIVER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace distwrap::gpu_test {

// Why no test can run here; empty where there is a GPU.
std::string why_no_gpu();
int count_devices();
// "NVIDIA H100 80GB HBM3, driver 13.0"
std::string device_text(int device);
// The bytes of the device that nobody uses.
size_t free_bytes(int device);
// Whether this thread has a context.
bool has_context();

// Makes a device's primary context current in this thread.
void use_device(int device);

// Memory of a device, at first full of `fill`.
class DeviceBytes {
 public:
  DeviceBytes(int device, size_t bytes, unsigned char fill = 0);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }
  size_t size() const { return bytes_; }
  void upload(const void* from);
  void download(void* to) const;

 private:
  const int device_;
  const size_t bytes_;
  uint64_t address_ = 0;
};

// Opens once. The tasks of the device behind it wait.
class Gate {
 public:
  void open();
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

enum class CaptureMode { kGlobal, kThreadLocal, kRelaxed };

// A captured graph that can be launched.
class GpuGraph;

class GpuStream {
 public:
  explicit GpuStream(int device);
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  void* native() const { return stream_; }
  // Tasks behind what is on the stream. `put` waits on the device for the gate,
  // which has to live until then.
  void put(Gate& gate);
  void set(DeviceBytes& bytes, unsigned char value);
  void copy(DeviceBytes& to, const DeviceBytes& from);
  void synchronize();
  bool is_idle() const;

  void begin_capture(CaptureMode mode);
  std::unique_ptr<GpuGraph> end_capture();

 private:
  const int device_;
  void* stream_ = nullptr;
};

class GpuGraph {
 public:
  explicit GpuGraph(void* captured);
  ~GpuGraph();
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  void launch(GpuStream& stream);

 private:
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

// The time between two points of a stream.
class GpuTimer {
 public:
  explicit GpuTimer(int device);
  ~GpuTimer();
  void begin(GpuStream& stream);
  void end(GpuStream& stream);
  // Waits for the end.
  double microseconds() const;

 private:
  void *begin_ = nullptr, *end_ = nullptr;
};

}  // namespace distwrap::gpu_test

#endif  // DISTWRAP_TESTS_GPU_DRIVER_H_
