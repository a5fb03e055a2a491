#include "fakes/streams.h"

#include <atomic>
#include <map>
#include <utility>

namespace distwrap::fakes {
namespace {

std::atomic<void (*)(dw_work*, int32_t, const dw_error*)> complete{nullptr};

// Operations in flight, by their works.
struct Running {
  std::mutex mutex;
  std::map<dw_work*, std::shared_ptr<Event>> events;
};
Running& running() {
  static Running* const kRunning = new Running;
  return *kRunning;
}

FakeStream& stream_of(const dw_stream& stream) {
  return *static_cast<FakeStream*>(stream.native);
}

// Runs in the thread of a stream.
void run_operation(Submit submit, dw_comm* comm, dw_op op, dw_work* work,
                   Event& event) {
  op.stream = {};
  op.flags &= ~uint32_t{DW_FLAG_ASIDE};
  op.flags |= DW_FLAG_CALLER_WAITS;
  dw_error error = {};
  const int32_t code = submit(comm, &op, nullptr, &error);
  {
    std::lock_guard<std::mutex> lock(running().mutex);
    running().events.erase(work);
  }
  event.happen();
  complete.load()(work, code == DW_DONE ? DW_OK : code,
                  code == DW_DONE ? nullptr : &error);
}

}  // namespace

void Event::happen() {
  std::lock_guard<std::mutex> lock(mutex_);
  happened_ = true;
  changed_.notify_all();
}

void Event::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return happened_; });
}

bool Event::has_happened() {
  std::lock_guard<std::mutex> lock(mutex_);
  return happened_;
}

FakeStream::FakeStream() : thread_([this] { run(); }) {}

FakeStream::~FakeStream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void FakeStream::put(std::function<void()> task) {
  std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void FakeStream::synchronize() {
  Event reached;
  put([&] { reached.happen(); });
  reached.wait();
}

void FakeStream::run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

int32_t submit_on_stream(Submit submit, dw_comm* comm, const dw_op* op,
                         dw_work* work) {
  const auto event = std::make_shared<Event>();
  {
    std::lock_guard<std::mutex> lock(running().mutex);
    running().events[work] = event;
  }
  FakeStream& stream = stream_of(op->stream);
  const auto run = [=, copy = *op] {
    run_operation(submit, comm, copy, work, *event);
  };
  if ((op->flags & DW_FLAG_ASIDE) == 0) {
    stream.put(run);
    return DW_OK;
  }
  // Waits for the work that is on the stream now; a thread of its own ends it.
  const auto reached = std::make_shared<Event>();
  stream.put([reached] { reached->happen(); });
  std::thread([=] {
    reached->wait();
    run();
  }).detach();
  return DW_OK;
}

int32_t work_wait_stream(dw_comm* /*comm*/, dw_work* work,
                         const dw_stream* stream, dw_error* /*error*/) {
  std::lock_guard<std::mutex> lock(running().mutex);
  const auto found = running().events.find(work);
  if (found == running().events.end()) return DW_DONE;
  stream_of(*stream).put([event = found->second] { event->wait(); });
  return DW_OK;
}

void complete_by(void (*by)(dw_work*, int32_t, const dw_error*)) {
  complete = by;
}

}  // namespace distwrap::fakes
