// Memory between two pages that nobody may touch: a byte written before or
// behind it ends the program.
#ifndef DISTWRAP_TESTS_RANKS_GUARDED_H_
#define DISTWRAP_TESTS_RANKS_GUARDED_H_

#include "distwrap/tensor_view.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace distwrap::testing {

// `count` elements that end at the page behind them, or begin at the page
// before them.
template <class T>
class Guarded {
 public:
  Guarded(int64_t count, bool at_end, T fill) : count_(count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    base_ = static_cast<uint8_t*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_, page, PROT_NONE), 0);
    EXPECT_EQ(mprotect(base_ + page + inner, page, PROT_NONE), 0);
    data_ = reinterpret_cast<T*>(base_ + page + (at_end ? inner - bytes : 0));
    for (int64_t i = 0; i < count; ++i) data_[i] = fill;
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  TensorView view() const { return TensorView(data_, count_); }
  T& operator[](int64_t i) { return data_[i]; }
  int64_t count() const { return count_; }

 private:
  int64_t count_;
  uint8_t* base_;
  size_t size_;
  T* data_;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_GUARDED_H_
