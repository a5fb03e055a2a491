// The mistakes that a check has found, collected from all ranks.
#ifndef DISTWRAP_TESTS_CONFORMANCE_FINDINGS_H_
#define DISTWRAP_TESTS_CONFORMANCE_FINDINGS_H_

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace distwrap::conformance {

// Threads: any.
class Findings {
 public:
  void add(std::string text) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    if (texts_.size() < kKept) texts_.push_back(std::move(text));
  }
  bool empty() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return count_ == 0;
  }
  // One a line: the first ones, and the number of all.
  std::string text() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string all = std::to_string(count_) + " findings\n";
    for (const std::string& text : texts_) all += "  " + text + "\n";
    return all;
  }

 private:
  static constexpr size_t kKept = 20;

  mutable std::mutex mutex_;
  size_t count_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_FINDINGS_H_
