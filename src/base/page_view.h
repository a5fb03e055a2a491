// Shared memory of this process, mapped a second time: the same pages at
// another address, which stay when the first mapping ends.
//
// Threads: any. Ownership: the end of the object ends the second mapping.
#ifndef DISTWRAP_SRC_BASE_PAGE_VIEW_H_
#define DISTWRAP_SRC_BASE_PAGE_VIEW_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace distwrap::base {

class PageView {
 public:
  // Maps the pages of `bytes` at `data`, which need not begin at a page.
  // kUnsupported for memory that is not shared, kOutOfMemory.
  static absl::StatusOr<std::shared_ptr<const PageView>> of(void* data,
                                                            int64_t bytes);
  ~PageView();
  PageView(const PageView&) = delete;
  PageView& operator=(const PageView&) = delete;

  // The place of the first of the bytes.
  void* data() const { return data_; }

 private:
  PageView(void* begin, size_t length, void* data)
      : begin_(begin), length_(length), data_(data) {}

  void* const begin_;
  const size_t length_;
  void* const data_;
};

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_PAGE_VIEW_H_
