// Memory that the ranks of a host share: a sealed memfd, mapped.
//
// Nothing has a name, so nothing is left when the last process has ended,
// however it ended. Pages are reserved before they are touched, so that memory
// that has run out is an error and no signal; and only as far as the control
// groups leave room, beyond which the kernel would end the process.
// Threads: any, after construction. Ownership: owns descriptor and mapping.
#ifndef DISTWRAP_SRC_COMM_BOARD_HOST_MEMORY_H_
#define DISTWRAP_SRC_COMM_BOARD_HOST_MEMORY_H_

#include "base/descriptor.h"
#include "comm/board/page.h"
#include "sdk/headroom.h"

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>

namespace distwrap::comm {

class HostMemory {
 public:
  // The name of the board's memory for other processes.
  static constexpr char kName[] = "distwrap board";
  // Areas for that many ranks, with nothing reserved. Errors: kOutOfMemory,
  // kResourceLimit.
  static absl::StatusOr<std::unique_ptr<HostMemory>> make(
      size_t ranks, const char* name = kName);
  // Maps memory that another rank made. Errors: kRefused when it is not of that
  // size, or not sealed; as `make`.
  static absl::StatusOr<std::unique_ptr<HostMemory>> adopt(
      base::Descriptor memory, size_t ranks);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  size_t ranks() const { return ranks_; }
  Area& area(size_t rank) const { return areas_[rank]; }
  // Reserves memory for a page of an area. Errors: kOutOfMemory, with the
  // needed and the available amount.
  absl::Status reserve(const void* page,
                       const dw_headroom& room = dw_read_headroom()) const;
  // The lock by which other ranks know that this rank lives; see
  // liveness_mutex.h.
  std::unique_ptr<LivenessMutex> make_liveness(size_t rank) const {
    return LivenessMutex::make(memory_.get(), rank * kAreaBytes);
  }
  // The descriptor to hand to other ranks; this object keeps it open.
  int descriptor() const { return memory_.get(); }

 private:
  HostMemory(base::Descriptor memory, Area* areas, size_t ranks)
      : memory_(std::move(memory)), areas_(areas), ranks_(ranks) {}
  static absl::StatusOr<std::unique_ptr<HostMemory>> map(
      base::Descriptor memory, size_t ranks);

  const base::Descriptor memory_;
  Area* const areas_;
  const size_t ranks_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_HOST_MEMORY_H_
