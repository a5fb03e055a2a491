#include "comm/board/host_memory.h"

#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace distwrap::comm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status failed(const char* what, int error) {
  const bool limit = error == EMFILE || error == ENFILE;
  return base::make_error(
      {.reason = limit ? Reason::kResourceLimit : Reason::kOutOfMemory,
       .what = what,
       .cause = base::errno_text(error),
       .next_step = limit ? "raise the limit of open files (ulimit -n)"
                          : "leave more memory to this job"});
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostMemory>> HostMemory::make(size_t ranks) {
  base::Descriptor memory(
      memfd_create("distwrap board", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.is_open()) return failed("no memory that ranks can share", errno);
  if (ftruncate(memory.get(), static_cast<off_t>(ranks * kAreaBytes)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0)
    return failed("the memory of the ranks cannot be made", errno);
  return map(std::move(memory), ranks);
}

absl::StatusOr<std::unique_ptr<HostMemory>> HostMemory::adopt(
    base::Descriptor memory, size_t ranks) {
  struct stat found = {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (fstat(memory.get(), &found) != 0 || seals < 0 ||
      (seals & kSeals) != kSeals ||
      found.st_size != static_cast<off_t>(ranks * kAreaBytes))
    return base::make_error({.reason = Reason::kRefused,
                             .what = "what a rank of this host has handed over "
                                     "is not the memory of the ranks"});
  return map(std::move(memory), ranks);
}

absl::StatusOr<std::unique_ptr<HostMemory>> HostMemory::map(
    base::Descriptor memory, size_t ranks) {
  void* const areas = mmap(nullptr, ranks * kAreaBytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED, memory.get(), 0);
  if (areas == MAP_FAILED)
    return failed("the memory of the ranks cannot be mapped", errno);
  return std::unique_ptr<HostMemory>(
      new HostMemory(std::move(memory), static_cast<Area*>(areas), ranks));
}

HostMemory::~HostMemory() { munmap(areas_, ranks_ * kAreaBytes); }

absl::Status HostMemory::reserve(const void* page) const {
  const off_t at = static_cast<const char*>(page) -
                   static_cast<const char*>(static_cast<void*>(areas_));
  while (fallocate(memory_.get(), 0, at, kPageBytes) != 0)
    if (errno != EINTR)
      return failed("no page of memory for what the ranks tell each other",
                    errno);
  return absl::OkStatus();
}

}  // namespace distwrap::comm
