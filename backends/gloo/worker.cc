#include "worker.h"

#include "backend.h"
#include "run.h"
#include "signals.h"

#include <chrono>
#include <exception>
#include <utility>

namespace gloo_backend {
namespace {

// How long one message is waited for while there are others. Gloo tells of an
// arrival only to who waits for this very message.
constexpr std::chrono::microseconds kTurn(100);

}  // namespace

Worker::Worker(dw_comm* comm)
    : comm_(comm), alarm_(*comm->device, [this] {
        std::lock_guard<std::mutex> lock(mutex_);
        let_go();
      }) {
  desk_.attach(&comm->mesh->peers(), comm->size);
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
    // The one that is waited for counts, too.
    const size_t open = messages_.size() + (awaited_ != nullptr ? 1 : 0);
    if (open == 2) alarm_.every(kTurn);
  }
  changed_.notify_one();
}

void Worker::let_go() {
  if (awaited_ != nullptr) awaited_->lane->let_go(awaited_->way);
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

void Worker::run_collective(std::unique_lock<std::mutex>& lock) {
  const Collective next = std::move(collectives_.front());
  collectives_.pop_front();
  lock.unlock();
  dw_error error = {};
  const int32_t code = gloo_backend::run(comm_, desk_, next.call, &error);
  comm_->host->complete(next.work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
}

void Worker::wait_for_message(std::unique_lock<std::mutex>& lock) {
  Posted message = std::move(messages_.front());
  messages_.pop_front();
  awaited_ = &message;
  lock.unlock();
  dw_error error = {};
  int32_t code = DW_AGAIN;
  try {
    if (message.lane->wait(message.way)) code = DW_OK;
  } catch (const std::exception& exception) {
    code = comm_->failure.fail(comm_, exception.what(), &error);
  }
  lock.lock();
  awaited_ = nullptr;
  if (code == DW_AGAIN) {
    messages_.push_back(std::move(message));
    return;
  }
  if (messages_.size() < 2) alarm_.stop();
  lock.unlock();
  if (code == DW_OK)
    comm_->messages.give_back(std::move(message.lane));
  else
    message.lane.reset();  // Gloo lets go of the caller's memory
  comm_->host->complete(message.work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
}

}  // namespace gloo_backend
