// A listener that keeps what its line brings, for tests.
#ifndef DISTWRAP_TESTS_UNIT_STORE_HEARD_H_
#define DISTWRAP_TESTS_UNIT_STORE_HEARD_H_

#include "base/mutex.h"
#include "store/news_line.h"
#include "store_under_test.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::store {

class Heard final : public NewsLine::Listener {
 public:
  void on_news(absl::string_view text) override { add(std::string(text)); }
  void on_line_lost(absl::string_view, bool) override { add("line lost"); }
  // The first entries, when there are so many.
  std::vector<std::string> wait_for(size_t number) {
    base::MutexLock lock(mutex_);
    const Deadline deadline = soon();
    while (entries_.size() < number && changed_.wait_until(mutex_, deadline)) {
    }
    return entries_;
  }

 private:
  void add(std::string text) {
    base::MutexLock lock(mutex_);
    entries_.push_back(std::move(text));
    changed_.notify_all();
  }
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> entries_ ABSL_GUARDED_BY(mutex_);
};

inline std::unique_ptr<NewsLine> line_of(
    StorePlace place, const std::string& will, Heard& heard,
    absl::Duration silence = absl::Seconds(20)) {
  auto line =
      NewsLine::open({std::move(place), "news", will, silence}, heard, soon());
  EXPECT_TRUE(line.ok()) << line.status();
  return *std::move(line);
}

}  // namespace distwrap::store

#endif  // DISTWRAP_TESTS_UNIT_STORE_HEARD_H_
