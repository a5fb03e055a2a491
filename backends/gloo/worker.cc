#include "worker.h"

#include "backend.h"
#include "run.h"
#include "signals.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

namespace gloo_backend {
namespace {

// How long one of several is waited for at a time: Gloo tells of an end only to
// who waits for it. Of arrivals the watch tells, but for those that it may come
// too late to see, with more than 32 peers.
constexpr std::chrono::microseconds kTurn(100), kRarely(20'000), kNever(0);

}  // namespace

Worker::Worker(dw_comm* comm)
    : comm_(comm),
      has_come_(static_cast<size_t>(comm->size)),
      alarm_(*comm->device,
             [this] {
               std::lock_guard<std::mutex> lock(mutex_);
               let_go();
             }),
      bell_(*comm->device, [this] { look_at_arrivals(); }) {
  comm->watch->listen([this](int rank) { arrived(rank); });
  desk_.attach(&comm->mesh->peers(), comm->size, this);
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { loop(); });
}

Worker::~Worker() {
  comm_->watch->listen(nullptr);
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

void Worker::post(const Call& call, dw_work* work) {
  const Way way = call.kind == DW_OP_SEND ? Way::kSend : Way::kReceive;
  const Piece piece = way == Way::kSend ? call.in : call.out;
  const uint64_t slot = message_slot(call.tag, piece.bytes);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto same = std::find_if(
        messages_.begin(), messages_.end(), [&](const Posted& posted) {
          return posted.slot == slot && posted.way == way &&
                 posted.lane->peer() == call.peer;
        });
    if (same != messages_.end()) {
      begin_message(*same->lane, call);
      same->works.push_back(work);
      return;
    }
    Posted first;
    first.way = way;
    first.slot = slot;
    first.works.push_back(work);
    first.lane = comm_->messages.take(call.peer);
    begin_message(*first.lane, call);
    messages_.push_back(std::move(first));
    if (way == Way::kSend) ++sends_;
    set_alarm();
  }
  changed_.notify_one();
}

void Worker::arrived(int rank) {
  has_come_[static_cast<size_t>(rank)].store(true);
  bell_.soon();
}

// Who waits for something of theirs comes first.
void Worker::look_at_arrivals() {
  std::lock_guard<std::mutex> lock(mutex_);
  bool is_awaited = true;
  for (auto one = messages_.begin(); one != messages_.end();) {
    const auto next = std::next(one);
    if (one->way == Way::kReceive &&
        has_come_[static_cast<size_t>(one->lane->peer())].load()) {
      is_awaited &= one->lane.get() == awaited_.lane;
      messages_.splice(messages_.begin(), messages_, one);
    }
    one = next;
  }
  for (std::atomic<bool>& one : has_come_) one.store(false);
  if (is_awaited) return;
  turns_ = messages_.size();
  set_alarm();
  let_go();
}

void Worker::let_go() {
  if (awaited_.lane != nullptr) awaited_.lane->let_go(awaited_.way);
}

void Worker::set_alarm() {
  const bool several = messages_.size() + (collective_runs_ ? 1 : 0) > 1;
  comm_->watch->want_arrivals(messages_.size() - sends_ > 1);
  const bool looks = sends_ > 0 || turns_ > 0 || collective_runs_;
  const std::chrono::microseconds period = !several ? kNever
                                           : looks  ? kTurn
                                                    : kRarely;
  if (period == period_) return;
  period_ = period;
  alarm_.every(period);
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
  collective_runs_ = true;
  set_alarm();
  lock.unlock();
  dw_error error = {};
  const int32_t code = gloo_backend::run(comm_, desk_, next.call, &error);
  lock.lock();
  collective_runs_ = false;
  set_alarm();
  lock.unlock();
  comm_->host->complete(next.work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
}

void Worker::wait_for_message(std::unique_lock<std::mutex>& lock) {
  const auto message = messages_.begin();
  dw_error error = {};
  int32_t code = DW_AGAIN;
  try {
    if (await(lock, *message->lane, message->way)) code = DW_OK;
  } catch (const std::exception& exception) {
    lock.unlock();
    code = comm_->failure.fail(comm_, exception.what(), &error);
    lock.lock();
  }
  if (code == DW_AGAIN) {
    if (turns_ > 0 && --turns_ == 0) set_alarm();
    // Unless something has come for it meanwhile.
    if (message == messages_.begin())
      messages_.splice(messages_.end(), messages_, message);
    return;
  }
  // Of a broken lane all are at their end.
  std::deque<dw_work*> ended;
  if (code != DW_OK) {
    ended.swap(message->works);
  } else {
    ended.push_back(message->works.front());
    message->works.pop_front();
  }
  std::unique_ptr<Lane> unused;
  if (message->works.empty()) {
    if (message->way == Way::kSend) --sends_;
    unused = std::move(message->lane);
    messages_.erase(message);
    set_alarm();
  }
  lock.unlock();
  if (unused != nullptr && code == DW_OK)
    comm_->messages.give_back(std::move(unused));
  else
    unused.reset();  // Gloo lets go of the caller's memory
  for (dw_work* const work : ended)
    comm_->host->complete(work, code, code == DW_OK ? nullptr : &error);
  lock.lock();
}

}  // namespace gloo_backend
