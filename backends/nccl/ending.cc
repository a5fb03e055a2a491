#include "ending.h"

#include "sdk/thread.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace nccl_backend {

bool Ending::wait(std::chrono::nanoseconds patience) {
  return wait_for(State::kEnded, patience);
}

bool Ending::wait_until_settled(std::chrono::nanoseconds patience) {
  return wait_for(State::kSettled, patience);
}

void Ending::settled() { reach(State::kSettled); }

void Ending::ended() { reach(State::kEnded); }

void Ending::leave_behind() {
  std::lock_guard<std::mutex> lock(mutex_);
  left_behind_ = true;
}

bool Ending::is_left_behind() {
  std::lock_guard<std::mutex> lock(mutex_);
  return left_behind_;
}

bool Ending::wait_for(State state, std::chrono::nanoseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return state_ >= state; });
}

void Ending::reach(State state) {
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = state;
  changed_.notify_all();
}

std::shared_ptr<Ending> Endings::add() {
  const auto ending = std::make_shared<Ending>();
  std::lock_guard<std::mutex> lock(mutex_);
  all_.erase(std::remove_if(all_.begin(), all_.end(),
                            [](const std::shared_ptr<Ending>& one) {
                              return one->wait(std::chrono::seconds(0)) &&
                                     !one->is_left_behind();
                            }),
             all_.end());
  all_.push_back(ending);
  return ending;
}

void Endings::run(const std::shared_ptr<Ending>& ending,
                  std::function<void(Ending&)> body) {
  const auto run = [ending, body = std::move(body)] {
    body(*ending);
    ending->ended();
  };
  std::thread thread;
  if (dw_sdk::start_thread(&thread, "dw-nccl-end", run, nullptr) == DW_OK)
    thread.detach();
  else
    run();
}

size_t Endings::wait_for_all(std::chrono::nanoseconds patience) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  std::vector<std::shared_ptr<Ending>> all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    all.swap(all_);
  }
  size_t left = 0;
  for (const std::shared_ptr<Ending>& one : all) {
    const auto rest = std::max(
        std::chrono::nanoseconds(0),
        std::chrono::nanoseconds(limit - std::chrono::steady_clock::now()));
    if (!one->wait(rest) || one->is_left_behind()) ++left;
  }
  return left;
}

}  // namespace nccl_backend
