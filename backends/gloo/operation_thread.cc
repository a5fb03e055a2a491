#include "operation_thread.h"

#include "backend.h"
#include "failure.h"
#include "run.h"
#include "sdk/thread.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

namespace gloo_backend {
namespace {

// The time to wait for one of several transfers, since Gloo reports the end of
// a transfer only to a thread that waits for it. The watch reports arrivals,
// except those that it may miss with more than 32 peers.
constexpr std::chrono::microseconds kTurn(100), kRarely(20'000), kNever(0);

}  // namespace

OperationThread::OperationThread(dw_comm* comm)
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
}

int32_t OperationThread::start(dw_error* error) {
  return dw_sdk::start_thread(
      &thread_, "dw-gloo", [this] { loop(); }, error);
}

OperationThread::~OperationThread() {
  comm_->watch->listen(nullptr);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void OperationThread::run(EngineOp&& call, dw_work* work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    collectives_.push_back({std::move(call), work});
    let_go();
  }
  changed_.notify_one();
}

// All memory is taken before Gloo begins to move the message: what fails then
// leaves nothing behind that Gloo knows.
void OperationThread::post(const EngineOp& call, dw_work* work) {
  std::list<Posted> made(1);
  Posted& own = made.front();
  own.items.push_back({Message(call, comm_->rank), work, nullptr, nullptr});
  Item& item = own.items.front();
  Message& message = item.message;
  own.direction = message.direction();
  own.slot = head_slot(call.tag);
  item.frame.reset(new char[message.frame_bytes()]);
  if (message.is_long()) item.payload = comm_->messages.take(call.peer);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto same = std::find_if(
        messages_.begin(), messages_.end(), [&](const Posted& posted) {
          return posted.slot == own.slot && posted.direction == own.direction &&
                 posted.lane->peer() == call.peer;
        });
    if (same != messages_.end()) {
      message.begin(item.frame.get(), *same->lane, item.payload.get());
      same->items.splice(same->items.end(), own.items);
      return;
    }
    own.lane = comm_->messages.take(call.peer);
    message.begin(item.frame.get(), *own.lane, item.payload.get());
    if (own.direction == Direction::kSend) ++sends_;
    messages_.splice(messages_.end(), made);
    set_alarm();
  }
  changed_.notify_one();
}

void OperationThread::arrived(int rank) {
  has_come_[static_cast<size_t>(rank)].store(true);
  bell_.soon();
}

// Moves messages with arrivals to the front and interrupts the present wait.
void OperationThread::look_at_arrivals() {
  std::lock_guard<std::mutex> lock(mutex_);
  bool is_awaited = true;
  for (auto one = messages_.begin(); one != messages_.end();) {
    const auto next = std::next(one);
    if (one->direction == Direction::kReceive &&
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

void OperationThread::let_go() {
  if (awaited_.lane != nullptr) awaited_.lane->let_go(awaited_.direction);
}

void OperationThread::set_alarm() {
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

void OperationThread::loop() {
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

bool OperationThread::await(std::unique_lock<std::mutex>& lock, Lane& lane,
                            Direction direction) {
  awaited_ = {&lane, direction};
  lock.unlock();
  bool complete;
  try {
    complete = lane.wait(direction);
  } catch (...) {
    lock.lock();
    awaited_ = {};
    throw;
  }
  lock.lock();
  awaited_ = {};
  return complete;
}

void OperationThread::finish(Lane& lane, Direction direction) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!await(lock, lane, direction))
    if (!messages_.empty()) wait_for_message(lock);
}

void OperationThread::run_collective(std::unique_lock<std::mutex>& lock) {
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

// The head of the first message has come or gone. A payload that has a transfer
// of its own is waited for next, like a message.
int32_t OperationThread::take_first_head(std::list<Posted>::iterator posted,
                                         dw_error* error) {
  Item& first = posted->items.front();
  dw_error why = {};
  if (first.message.take_head(&why) != DW_OK)
    return comm_->failure.fail(why, error);
  if (!first.message.is_long()) return DW_OK;
  std::list<Posted> made(1);
  Posted& payload = made.front();
  payload.direction = posted->direction;
  payload.lane = std::move(first.payload);
  payload.items.splice(payload.items.end(), posted->items,
                       posted->items.begin());
  messages_.splice(messages_.begin(), made);
  if (posted->direction == Direction::kSend) ++sends_;
  if (posted->items.empty()) comm_->messages.give_back(drop(posted));
  set_alarm();
  return DW_AGAIN;
}

std::unique_ptr<Lane> OperationThread::drop(
    std::list<Posted>::iterator posted) {
  if (posted->direction == Direction::kSend) --sends_;
  std::unique_ptr<Lane> lane = std::move(posted->lane);
  messages_.erase(posted);
  return lane;
}

void OperationThread::wait_for_message(std::unique_lock<std::mutex>& lock) {
  const auto message = messages_.begin();
  dw_error error = {};
  int32_t code = DW_OK;
  try {
    if (!await(lock, *message->lane, message->direction)) {
      if (turns_ > 0 && --turns_ == 0) set_alarm();
      // The message moves to the back, unless data for it have come meanwhile.
      if (message == messages_.begin())
        messages_.splice(messages_.end(), messages_, message);
      return;
    }
    if (message->slot != 0) code = take_first_head(message, &error);
    if (code == DW_AGAIN) return;
  } catch (const std::exception&) {
    lock.unlock();
    code = fail_by_exception(comm_, &error);
    lock.lock();
  }
  // A broken lane ends all its operations.
  std::list<Item> ended;
  if (code != DW_OK)
    ended.swap(message->items);
  else
    ended.splice(ended.end(), message->items, message->items.begin());
  std::unique_ptr<Lane> unused;
  if (message->items.empty()) {
    unused = drop(message);
    set_alarm();
  }
  lock.unlock();
  // Gloo lets go of the caller's memory.
  if (unused != nullptr && code == DW_OK)
    comm_->messages.give_back(std::move(unused));
  unused.reset();
  for (Item& item : ended) item.payload.reset();
  for (const Item& item : ended)
    comm_->host->complete(item.work, code, code == DW_OK ? nullptr : &error);
  ended.clear();
  lock.lock();
}

}  // namespace gloo_backend
