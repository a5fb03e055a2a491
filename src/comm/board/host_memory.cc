#include "comm/board/host_memory.h"

#include "base/child_closes.h"
#include "base/error.h"

#include <absl/strings/str_cat.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

// A larger file would end the process by SIGXFSZ.
absl::Status check_file_size(uint64_t bytes) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes)
    return absl::OkStatus();
  return base::make_error(
      {.reason = Reason::kResourceLimit,
       .what = "the limit of file sizes is below the memory of the ranks",
       .expected = absl::StrCat("at least ", bytes, " bytes"),
       .actual = absl::StrCat(limit.rlim_cur, " bytes"),
       .next_step = "raise it (ulimit -f)"});
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostMemory>> HostMemory::make(size_t ranks,
                                                             const char* name) {
  if (absl::Status status = check_file_size(ranks * kAreaBytes); !status.ok())
    return status;
  base::Descriptor memory(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
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
    return base::make_error(
        {.reason = Reason::kRefused,
         .what = "the descriptor that a rank of this host handed over is not "
                 "the ranks' shared memory"});
  return map(std::move(memory), ranks);
}

absl::StatusOr<std::unique_ptr<HostMemory>> HostMemory::map(
    base::Descriptor memory, size_t ranks) {
  void* const areas = mmap(nullptr, ranks * kAreaBytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED, memory.get(), 0);
  if (areas == MAP_FAILED)
    return failed("the memory of the ranks cannot be mapped", errno);
  base::ChildCloses::add(areas, ranks * kAreaBytes);
  return std::unique_ptr<HostMemory>(
      new HostMemory(std::move(memory), static_cast<Area*>(areas), ranks));
}

HostMemory::~HostMemory() {
  base::ChildCloses::remove(areas_);
  munmap(areas_, ranks_ * kAreaBytes);
}

absl::Status HostMemory::reserve(const void* page,
                                 const dw_headroom& room) const {
  if (!dw_headroom_holds(&room, kPageBytes))
    return base::make_error(
        {.reason = Reason::kOutOfMemory,
         .what = "the control group leaves no memory for the page on which "
                 "ranks watch each other",
         .expected = absl::StrCat(kPageBytes, " bytes, and ", DW_HEADROOM_SPARE,
                                  " that stay free"),
         .actual = absl::StrCat(room.left, " bytes left of its limit of ",
                                room.limit),
         .next_step = "leave more memory to this job, or raise the limit of "
                      "its control group"});
  const off_t at = static_cast<const char*>(page) -
                   static_cast<const char*>(static_cast<void*>(areas_));
  while (fallocate(memory_.get(), 0, at, kPageBytes) != 0)
    if (errno != EINTR)
      return failed("no memory for the page on which ranks watch each other",
                    errno);
  return absl::OkStatus();
}

}  // namespace distwrap::comm
