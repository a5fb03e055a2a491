#include "room.h"

#include "sdk/fail.h"

#include <climits>

#include <cstring>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shm_backend {
namespace {

// No group has more staging: sizes do not overflow.
constexpr uint64_t kMostStage = uint64_t{1} << 32;

}  // namespace

int32_t Room::create(const Header& header, dw_error* error) {
  layout_ = {header.size, header.stage_bytes};
  if (int32_t code = segment_.create(layout_.total(), error)) return code;
  if (int32_t code = segment_.reserve(0, layout_.stage(0), error)) return code;
  std::memcpy(segment_.data(), &header, sizeof header);
  return DW_OK;
}

int32_t Room::adopt(Descriptor fd, const Header& wanted, dw_error* error) {
  if (int32_t code = segment_.adopt(std::move(fd), error)) return code;
  Header header = {};
  if (segment_.bytes() >= sizeof header)
    std::memcpy(&header, segment_.data(), sizeof header);
  Layout layout = {wanted.size, header.stage_bytes};
  if (header.magic != kSegmentMagic || header.nonce != wanted.nonce ||
      header.uid != wanted.uid || header.epoch != wanted.epoch ||
      header.size != wanted.size || header.stage_bytes < kSmallStage ||
      header.stage_bytes > kMostStage || header.stage_bytes % kPage != 0 ||
      layout.total() != segment_.bytes())
    return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED, 0, 0,
                   "shm: the memory that rank 0 gave is not this group's");
  layout_ = layout;
  return DW_OK;
}

int32_t Room::enter(int rank, uint64_t token, dw_error* error) {
  rank_ = rank;
  const auto at = static_cast<size_t>(rank);
  if (int32_t code = segment_.reserve(layout_.stage(at), kSmallStage, error))
    return code;
  if (int32_t code =
          segment_.reserve(layout_.boxes(at), layout_.boxes_bytes(), error))
    return code;
  areas_ = reinterpret_cast<Area*>(segment_.data() + layout_.area(0));
  stages_ = segment_.data() + layout_.stage(0);
  mine().token.store(token, std::memory_order_release);
  return DW_OK;
}

int32_t Room::reserve_stage(dw_error* error) {
  return segment_.reserve(
      layout_.stage(static_cast<size_t>(rank_)) + kSmallStage,
      layout_.stage_bytes - kSmallStage, error);
}

int32_t Room::reserve_pool(dw_error* error) {
  return segment_.reserve(layout_.pool(static_cast<size_t>(rank_)),
                          kChunks * kChunkBytes, error);
}

void Room::ring(int rank) const {
  std::atomic<uint32_t>& bell = areas_[rank].bell;
  bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Room::leave(State state) const {
  uint32_t open = static_cast<uint32_t>(State::kOpen);
  mine().state.compare_exchange_strong(open, static_cast<uint32_t>(state),
                                       std::memory_order_acq_rel);
  for (int rank = 0; rank < size(); ++rank) ring(rank);
}

}  // namespace shm_backend
