#include "room.h"

#include "sdk/fail.h"
#include "wait.h"

#include <new>
#include <unistd.h>
#include <utility>

namespace shm_backend {
namespace {

// Makes an area as if it had never been used.
void clear(Area& area, int size) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  area.state.store(static_cast<uint32_t>(State::kOpen), kRelaxed);
  area.pool.store(0, kRelaxed);
  area.process.store(getpid(), kRelaxed);
  area.itself.store(reinterpret_cast<uintptr_t>(&area), kRelaxed);
  area.sleepers.store(0, kRelaxed);
  area.done.store(0, kRelaxed);
  for (auto& freed : area.freed) freed.store(0, kRelaxed);
  for (Post& post : area.posts) post.ticket.store(0, kRelaxed);
  for (int rank = 0; rank < size; ++rank) {
    boxes_of(area)[rank].store(0, kRelaxed);
    CmaPiece& lane = lanes_of(area, size)[rank];
    for (auto* word :
         {&lane.begun, &lane.received, &lane.sent, &lane.at, &lane.length})
      word->store(0, kRelaxed);
  }
}

}  // namespace

Room::~Room() {
  if (mine_ == nullptr) return;
  mine_->token.store(0, std::memory_order_release);
  try {
    if (is_open()) members_.erase(members_.begin() + rank_);
    arena_->retire(std::move(pieces_), std::move(members_));
  } catch (const std::bad_alloc&) {  // then the memory is not reused
  }
}

int32_t Room::enter(std::shared_ptr<Arena> arena, int size, uint64_t token,
                    dw_error* error) {
  Arena::Piece piece;
  pieces_.reserve(1);
  if (int32_t code =
          arena->take(Arena::Kind::kArea, area_bytes(size), &piece, error))
    return code;
  arena_ = std::move(arena);
  pieces_.push_back(piece);
  mine_ = reinterpret_cast<Area*>(arena_->own(piece.at));
  clear(*mine_, size);
  mine_->token.store(token, std::memory_order_release);
  return DW_OK;
}

int32_t Room::meet(int rank, std::vector<Arena::Member> members,
                   dw_error* error) {
  std::vector<Area*> areas;
  for (size_t other = 0; other < members.size(); ++other) {
    const Arena::Member& member = members[other];
    char* const at =
        member.area % alignof(Area) == 0
            ? arena_->find(member.rank, member.area,
                           area_bytes(static_cast<int>(members.size())))
            : nullptr;
    if (at == nullptr)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED,
                     static_cast<int32_t>(other), 0,
                     "shm: a rank names a place outside of its memory");
    areas.push_back(reinterpret_cast<Area*>(at));
    if (areas.back()->token.load(std::memory_order_acquire) != member.token)
      return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_REFUSED,
                     static_cast<int32_t>(other), 0,
                     "shm: a rank does not see the same memory: the group is "
                     "not on one host");
    arena_ranks_.push_back(member.rank);
  }
  rank_ = rank;
  areas_ = std::move(areas);
  members_ = std::move(members);
  return DW_OK;
}

int32_t Room::take(size_t bytes, size_t* at, dw_error* error) {
  Arena::Piece piece;
  std::lock_guard<std::mutex> lock(mutex_);
  pieces_.reserve(pieces_.size() + 1);
  if (int32_t code = arena_->take(Arena::Kind::kData, bytes, &piece, error))
    return code;
  pieces_.push_back(piece);
  *at = piece.at;
  return DW_OK;
}

void Room::ring(int rank) const { dw_hostmem::ring(area(rank).bell); }

void Room::leave(State state) const {
  uint32_t open = static_cast<uint32_t>(State::kOpen);
  mine().state.compare_exchange_strong(open, static_cast<uint32_t>(state),
                                       std::memory_order_seq_cst);
  // No rank waits for a closed one, except by mistake: a rank that is falling
  // asleep notices it after its nap.
  for (int rank = 0; rank < size(); ++rank)
    state == State::kClosed ? wake(rank) : ring(rank);
}

}  // namespace shm_backend
