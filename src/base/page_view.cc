#include "base/page_view.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <cerrno>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace distwrap::base {

absl::StatusOr<std::shared_ptr<const PageView>> PageView::of(void* data,
                                                             int64_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = first / page * page;
  const uintptr_t within = first - begin;
  const size_t length =
      (within + static_cast<size_t>(bytes < 1 ? 1 : bytes) + page - 1) / page *
      page;
  // An old size of 0 asks for a second mapping and keeps the first one.
  void* const view =
      mremap(reinterpret_cast<void*>(begin), 0, length, MREMAP_MAYMOVE);
  if (view == MAP_FAILED) {
    const bool is_private = errno == EINVAL || errno == EFAULT;
    return make_error(
        {.reason = is_private ? Reason::kUnsupported : Reason::kOutOfMemory,
         .what = is_private
                     ? "the memory is not shared, so it cannot be "
                       "mapped a second time"
                     : absl::StrCat("no address space for ", length, " bytes"),
         .next_step = is_private
                          ? "use the memory as long as its owner keeps it"
                          : "raise `ulimit -v`"});
  }
  return std::shared_ptr<const PageView>(
      new PageView(view, length, static_cast<char*>(view) + within));
}

PageView::~PageView() { munmap(begin_, length_); }

}  // namespace distwrap::base
