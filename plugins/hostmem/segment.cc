#include "hostmem/segment.h"

#include "hostmem/window.h"
#include "sdk/fail.h"
#include "sdk/headroom.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dw_hostmem {
namespace {

constexpr size_t kPage = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor descriptor_of(int64_t process, int fd) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/fd/%d",
                static_cast<long long>(process), fd);
  // A pipe would wait for its other end.
  return Descriptor(::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

int32_t Segment::fail_system(dw_error* error, const char* what,
                             int cause) const {
  const bool limit = cause == EMFILE || cause == ENFILE || cause == EFBIG;
  const bool memory = cause == ENOMEM || cause == ENOSPC;
  char text[200];
  std::snprintf(text, sizeof text, "%s: %s: %s", backend_, what,
                strerror(cause));
  if (limit || memory)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED,
                   limit ? DW_REASON_RESOURCE_LIMIT : DW_REASON_OUT_OF_MEMORY,
                   -1, cause, text);
  return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, cause, text);
}

int32_t Segment::create(size_t bytes, dw_error* error, size_t most) {
  // A larger file would end the process by SIGXFSZ.
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    return fail_system(
        error, "shared memory is above the limit of file sizes (ulimit -f)",
        EFBIG);
  char name[40];
  std::snprintf(name, sizeof name, "distwrap-%s", backend_);
  fd_ = Descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd_.is_open()) return fail_system(error, "no shared memory", errno);
  if (ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
    return fail_system(error, "no shared memory of this size", errno);
  // A peer that shrinks it would end this process by SIGBUS.
  if (fcntl(fd_.get(), F_ADD_SEALS, kSeals) != 0)
    return fail_system(error, "shared memory cannot be sealed", errno);
  return map(most, error);
}

int32_t Segment::adopt(Descriptor fd, dw_error* error, size_t most) {
  fd_ = std::move(fd);
  const int seals = fcntl(fd_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return fail(backend_, error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, -1,
                "the memory that another rank handed over is not sealed");
  return map(most, error);
}

int32_t Segment::map(size_t most, dw_error* error) {
  struct stat status;
  if (fstat(fd_.get(), &status) != 0)
    return fail_system(error, "shared memory has no size", errno);
  const auto bytes = static_cast<size_t>(status.st_size);
  const size_t mapped = std::min(bytes, most);
  if (int32_t code = map_part(0, mapped, &data_, error)) return code;
  bytes_ = bytes;
  mapped_ = mapped;
  return DW_OK;
}

int32_t Segment::map_part(size_t at, size_t bytes, char** data,
                          dw_error* error) const {
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                           fd_.get(), static_cast<off_t>(at));
  if (begin == MAP_FAILED)
    return fail_system(error, "shared memory cannot be mapped", errno);
  // Little of it is ever reserved, and a core dump of it would not help.
  madvise(begin, bytes, MADV_DONTDUMP);
  *data = static_cast<char*>(begin);
  return DW_OK;
}

void Segment::give_back(size_t at, size_t bytes) const {
  fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(at), static_cast<off_t>(bytes));
}

int32_t Segment::reserve(size_t at, size_t bytes, char* data,
                         dw_error* error) const {
  const dw_headroom room = dw_read_headroom();
  if (!dw_headroom_holds(&room, bytes)) {
    char text[200];
    std::snprintf(
        text, sizeof text,
        "%s: %zu KiB of shared memory are needed, but the control "
        "group has %llu KiB free of its limit of %llu KiB, and %d KiB stay "
        "free",
        backend_, bytes >> 10, static_cast<unsigned long long>(room.left >> 10),
        static_cast<unsigned long long>(room.limit >> 10),
        DW_HEADROOM_SPARE >> 10);
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   text);
  }
  int failed;
  do {
    failed = fallocate(fd_.get(), 0, static_cast<off_t>(at),
                       static_cast<off_t>(bytes)) == 0
                 ? 0
                 : errno;
  } while (failed == EINTR);
  if (failed != 0)
    return fail_system(error, "shared memory cannot be reserved", failed);
  // Faults the pages in now rather than in the first operations. A page that
  // was never touched counts as a hole.
  int touched = -1;
#ifdef MADV_POPULATE_WRITE
  touched = madvise(data, bytes, MADV_POPULATE_WRITE);
#endif
  if (touched != 0)
    for (size_t page = 0; page < bytes; page += kPage)
      *static_cast<volatile char*>(data + page) = 0;
  return DW_OK;
}

size_t Segment::there(size_t at, size_t end) const {
  const off_t hole = lseek(fd_.get(), static_cast<off_t>(at), SEEK_HOLE);
  // Without an answer of the kernel the range counts as reserved, which only
  // wastes memory.
  if (hole < 0) return errno == ENXIO ? at : end;
  return std::clamp(static_cast<size_t>(hole), at, end);
}

}  // namespace dw_hostmem
