// Streams and events of fake devices. A stream is a thread that runs one task
// after the other, a little late, so that nobody sees an effect before its
// time. A stream that is being captured keeps its tasks in a graph instead.
#ifndef DISTWRAP_TESTS_FAKES_GPU_STREAM_H_
#define DISTWRAP_TESTS_FAKES_GPU_STREAM_H_

#include "fakes/gpu/rules.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace fakes::gpu {

// Something that happens once.
class FAKE_EXPORT Moment {
 public:
  void happen();
  void wait();
  bool has_happened();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

using Task = std::function<void()>;

struct Graph {
  std::vector<Task> tasks;
};

}  // namespace fakes::gpu

// The driver's types.
struct CUevent_st {
  std::mutex mutex;
  int device = 0;
  std::shared_ptr<fakes::gpu::Moment> last;  // null: never recorded
  // Recorded in a capture: the graph that has it.
  fakes::gpu::Graph* graph = nullptr;
};

struct FAKE_EXPORT CUstream_st {
 public:
  explicit CUstream_st(int on_device);
  // Ends when all tasks have run.
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  void put(fakes::gpu::Task task);
  // Runs when all before it has, not captured: for tests.
  void synchronize();
  bool is_idle();

  bool is_capturing() const { return graph() != nullptr; }
  fakes::gpu::Graph* graph() const { return graph_; }
  void capture(fakes::gpu::Graph* graph) { graph_ = graph; }

  const int device;
  // Operations of NCCL that are called, but not launched.
  std::atomic<int> unlaunched = 0;

 private:
  void run();

  std::atomic<fakes::gpu::Graph*> graph_{nullptr};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<fakes::gpu::Task> tasks_;
  bool running_ = false;
  bool ending_ = false;
  std::thread thread_;
};

namespace fakes::gpu {

// The stream of a handle: 1 is the legacy default stream of the thread's
// device. Null, and a broken rule, for what is no stream.
FAKE_EXPORT CUstream_st* stream_of(CUstream_st* handle);

// The device whose context is current in this thread; -1: none.
FAKE_EXPORT int current_device();
// Whether this thread may now make a call that ends captures, as
// cuThreadExchangeStreamCaptureMode says: one that allocates or frees memory,
// or asks or waits for the device. Breaks the rule otherwise.
FAKE_EXPORT bool leaves_captures_alone(const char* call);

}  // namespace fakes::gpu

#endif  // DISTWRAP_TESTS_FAKES_GPU_STREAM_H_
