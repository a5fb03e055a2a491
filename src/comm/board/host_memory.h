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
  // Areas for that many ranks, with nothing reserved. Errors: kOutOfMemory,
  // kResourceLimit.
  static absl::StatusOr<std::unique_ptr<HostMemory>> make(size_t ranks);
  // What another rank has made. Errors: kRefused when it is not of that size,
  // or not sealed; as `make`.
  static absl::StatusOr<std::unique_ptr<HostMemory>> adopt(
      base::Descriptor memory, size_t ranks);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  size_t ranks() const { return ranks_; }
  Area& area(size_t rank) const { return areas_[rank]; }
  // Makes a page of an area really there. Errors: kOutOfMemory, with what was
  // asked and what is left.
  absl::Status reserve(const void* page,
                       const dw_headroom& room = dw_read_headroom()) const;
  // The lock by which the others know that this rank lives; see life.h.
  std::unique_ptr<Life> make_life(size_t rank) const {
    return Life::make(memory_.get(), rank * kAreaBytes);
  }
  // For the other ranks; stays open.
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
