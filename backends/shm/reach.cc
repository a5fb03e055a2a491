#include "reach.h"

#include "wait.h"

#include <cerrno>
#include <cstddef>
#include <sys/uio.h>

namespace shm_backend {
namespace {

iovec place_of(uint64_t address, size_t bytes) {
  return {reinterpret_cast<void*>(static_cast<uintptr_t>(address)), bytes};
}

ssize_t read_process(int32_t process, void* to, uint64_t from, size_t bytes) {
  const iovec here = {to, bytes};
  const iovec there = place_of(from, bytes);
  return process_vm_readv(process, &here, 1, &there, 1, 0);
}

// Repeats the call, since the kernel moves a limited number of bytes at once.
template <class Move>
Reach::Got move_all(size_t bytes, const Move& move) {
  constexpr size_t kMost = size_t{1} << 30;
  for (size_t at = 0; at < bytes;) {
    const size_t some = bytes - at < kMost ? bytes - at : kMost;
    const ssize_t n = move(at, some);
    if (n <= 0)
      return n < 0 && errno == ESRCH ? Reach::Got::kGone
                                     : Reach::Got::kNonsense;
    at += static_cast<size_t>(n);
  }
  return Reach::Got::kAll;
}

Reach::Got result_of(ssize_t n, size_t bytes) {
  if (n == static_cast<ssize_t>(bytes)) return Reach::Got::kAll;
  return n < 0 && errno == ESRCH ? Reach::Got::kGone : Reach::Got::kNonsense;
}

}  // namespace

bool Reach::works() {
  if (access_ == Access::kUnknown) [[unlikely]]
    access_ = try_out() ? Access::kKernel : Access::kNone;
  return access_ != Access::kNone;
}

// Reads the token in the peer's area at the address that the peer gave. Another
// process, or one with an equal number in another pid namespace, has other
// bytes there or none.
bool Reach::try_out() {
  const Area& area = room_->area(peer_);
  process_ = area.process.load(std::memory_order_relaxed);
  uint64_t token = 0;
  return process_ > 0 &&
         read_process(process_, &token,
                      area.itself.load(std::memory_order_relaxed),
                      sizeof token) == sizeof token &&
         token == area.token.load(std::memory_order_relaxed) && token != 0;
}

// Writes a word of the peer's area that belongs to this rank, at the peer's
// address.
bool Reach::writes() {
  if (!works()) return false;
  const Area& area = room_->area(peer_);
  CmaPiece& lane = room_->lane(room_->rank(), peer_);
  const uint64_t word =
      room_->mine().token.load(std::memory_order_relaxed) ^ ~uint64_t{0};
  const auto offset =
      static_cast<uint64_t>(reinterpret_cast<char*>(&lane.sent) -
                            reinterpret_cast<const char*>(&area));
  lane.at.store(area.itself.load(std::memory_order_relaxed) + offset,
                std::memory_order_relaxed);
  lane.length.store(sizeof word, std::memory_order_relaxed);
  const bool written = write(lane, &word, sizeof word) == Got::kAll;
  lane.length.store(0, std::memory_order_relaxed);
  return written && lane.sent.load(std::memory_order_relaxed) == word;
}

Reach::Got Reach::read(void* to, uint64_t from, size_t bytes) const {
  const Got got = move_all(bytes, [&](size_t at, size_t some) {
    return read_process(process_, static_cast<char*>(to) + at, from + at, some);
  });
  order_loads();
  return got;
}

Reach::Got Reach::write(uint64_t to, const void* from, size_t bytes) const {
  return move_all(bytes, [&](size_t at, size_t some) {
    const iovec here = {static_cast<char*>(const_cast<void*>(from)) + at, some};
    const iovec there = place_of(to + at, some);
    return process_vm_writev(process_, &here, 1, &there, 1, 0);
  });
}

Reach::Got Reach::write(const CmaPiece& lane, const void* from,
                        size_t bytes) const {
  static_assert(sizeof(iovec) == 2 * sizeof(lane.at) &&
                offsetof(iovec, iov_len) == sizeof(lane.at) &&
                offsetof(CmaPiece, length) ==
                    offsetof(CmaPiece, at) + sizeof(lane.at));
  const iovec here = {const_cast<void*>(from), bytes};
  const auto* const there = reinterpret_cast<const iovec*>(&lane.at);
  return result_of(process_vm_writev(process_, &here, 1, there, 1, 0), bytes);
}

}  // namespace shm_backend
