#include "fakes/gpu/stream.h"

#include <chrono>
#include <utility>

namespace fakes::gpu {

void Moment::happen() {
  std::lock_guard<std::mutex> lock(mutex_);
  happened_ = true;
  changed_.notify_all();
}

void Moment::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return happened_; });
}

bool Moment::has_happened() {
  std::lock_guard<std::mutex> lock(mutex_);
  return happened_;
}

}  // namespace fakes::gpu

CUstream_st::CUstream_st(int on_device)
    : device(on_device), thread_([this] { run(); }) {}

CUstream_st::~CUstream_st() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CUstream_st::put(fakes::gpu::Task task) {
  if (fakes::gpu::Graph* const graph = graph_; graph != nullptr) {
    graph->tasks.push_back(std::move(task));
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void CUstream_st::synchronize() {
  fakes::gpu::Moment reached;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back([&] { reached.happen(); });
    changed_.notify_all();
  }
  reached.wait();
}

bool CUstream_st::is_idle() {
  std::lock_guard<std::mutex> lock(mutex_);
  return tasks_.empty() && !running_;
}

void CUstream_st::run() {
  for (;;) {
    fakes::gpu::Task task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      running_ = true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    task();
    task = nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    running_ = false;
  }
}
