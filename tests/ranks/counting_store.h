// An in-memory store that counts requests and lists its keys.
//
// Threads: any.
#ifndef DISTWRAP_TESTS_RANKS_COUNTING_STORE_H_
#define DISTWRAP_TESTS_RANKS_COUNTING_STORE_H_

#include "distwrap/store.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace distwrap::testing {

class CountingStore : public Store {
 public:
  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override {
    note(key);
    return inner_->set(key, value, deadline);
  }
  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline deadline) override {
    ++keys_asked_;
    return inner_->get(key, deadline);
  }
  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override {
    keys_asked_ += keys.size();
    return inner_->wait(keys, deadline);
  }
  absl::StatusOr<std::vector<std::string>> get_all(
      const std::vector<std::string>& keys, Deadline deadline) override {
    keys_asked_ += keys.size();
    return inner_->get_all(keys, deadline);
  }
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override {
    note(key);
    return inner_->add(key, delta, deadline);
  }
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    if (desired.empty())
      ++keys_asked_;
    else
      note(key);
    return inner_->compare_set(key, expected, desired, deadline);
  }
  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override {
    std::lock_guard<std::mutex> lock(mutex_);
    ++keys_asked_;
    keys_.erase(std::string(key));
    return inner_->delete_key(key, deadline);
  }
  std::string address() const override { return "counted"; }

  std::set<std::string> keys() {
    std::lock_guard<std::mutex> lock(mutex_);
    return keys_;
  }
  // The keys in all requests of all ranks so far.
  size_t keys_asked() const { return keys_asked_; }

 private:
  void note(absl::string_view key) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++keys_asked_;
    keys_.emplace(key);
  }

  const std::shared_ptr<Store> inner_ = Store::in_memory();
  std::atomic<size_t> keys_asked_{0};
  std::mutex mutex_;
  std::set<std::string> keys_;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_COUNTING_STORE_H_
