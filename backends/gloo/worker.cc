#include "worker.h"

#include "backend.h"
#include "run.h"
#include "signals.h"

#include <chrono>
#include <exception>
#include <utility>

namespace gloo_backend {
namespace {

// How long one of several is waited for at a time. Gloo tells of an
// arrival only to who waits for this very message.
constexpr std::chrono::microseconds kTurn(100);

}  // namespace

Worker::Worker(dw_comm* comm)
    : comm_(comm), alarm_(*comm->device, [this] {
        std::lock_guard<std::mutex> lock(mutex_);
        let_go();
      }) {
  desk_.attach(&comm->mesh->peers(), comm->size, this);
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { loop(); });
}

Worker::~Worker() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::run(Call&& call, dw_work* work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    collectives_.push_back({std::move(call), work});
    let_go();
  }
  changed_.notify_one();
}

void Worker::wait_for(Posted message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    messages_.push_back(std::move(message));
    set_alarm();
  }
  changed_.notify_one();
}

void Worker::let_go() {
  if (awaited_.lane != nullptr) awaited_.lane->let_go(awaited_.way);
}

void Worker::set_alarm() {
  const bool needed = messages_.size() + turns_ > 1;
  if (needed == alarmed_) return;
  alarmed_ = needed;
  if (needed)
    alarm_.every(kTurn);
  else
    alarm_.stop();
}

void Worker::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (!collectives_.empty())
      run_collective(lock);
    else if (!messages_.empty())
      wait_for_message(lock);
    else if (ending_)
      return;
    else
      changed_.wait(lock);
  }
}

bool Worker::await(std::unique_lock<std::mutex>& lock, Lane& lane, Way way) {
  awaited_ = {&lane, way};
  lock.unlock();
  bool complete;
  try {
    complete = lane.wait(way);
  } catch (...) {
    lock.lock();
    awaited_ = {};
    throw;
  }
  lock.lock();
  awaited_ = {};
  return complete;
}

void Worker::finish(Lane& lane, Way way) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!await(lock, lane, way))
    if (!messages_.empty()) wait_for_message(lock);
}

void Worker::run_collective(std::unique_lock<std::mutex>& lock) {
  const Collective next = std::move(collectives_.front());
  collectives_.pop_front();
  ++turns_;
  set_alarm();
  lock.unlock();
  dw_error error = {};
  const int32_t code = gloo_backend::run(comm_, desk_, next.call, &error);
  lock.lock();
  --turns_;
  set_alarm();
  lock.unlock();
  comm_->host->complete(next.work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
}

void Worker::wait_for_message(std::unique_lock<std::mutex>& lock) {
  Posted message = std::move(messages_.front());
  messages_.pop_front();
  ++turns_;
  dw_error error = {};
  int32_t code = DW_AGAIN;
  try {
    if (await(lock, *message.lane, message.way)) code = DW_OK;
  } catch (const std::exception& exception) {
    lock.unlock();
    code = comm_->failure.fail(comm_, exception.what(), &error);
    lock.lock();
  }
  --turns_;
  if (code == DW_AGAIN) {
    messages_.push_back(std::move(message));
    return;
  }
  set_alarm();
  lock.unlock();
  if (code == DW_OK)
    comm_->messages.give_back(std::move(message.lane));
  else
    message.lane.reset();  // Gloo lets go of the caller's memory
  comm_->host->complete(message.work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
}

}  // namespace gloo_backend
