#include "mailbox.h"

#include "copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace shm_backend {
namespace {

// A place in a pool: whether it was written with non-temporal stores, the
// chunk, the first line in it, and how often the chunk was used.
constexpr int kUseBits = 40, kBeginBits = 16;
constexpr uint64_t kPast = uint64_t{1} << 63;
constexpr uint64_t kUseMask = (uint64_t{1} << kUseBits) - 1;
constexpr size_t kMostAhead = 4 << 10;

Line* lines_of(Box& box) { return reinterpret_cast<Line*>(&box + 1); }

}  // namespace

void Outbox::attach(Room& room, int to) {
  room_ = &room;
  to_ = to;
  n_ = box_lines(room.size());
  most_ = n_ / 8 * kLine + sizeof Line::inside;
}

int32_t Outbox::open(dw_error* error) {
  size_t at;
  if (int32_t code = room_->take(box_bytes(room_->size()), &at, error))
    return code;
  box_ = reinterpret_cast<Box*>(room_->own(at));
  lines_ = lines_of(*box_);
  // An earlier group may have used this memory.
  box_->taken.store(0, std::memory_order_relaxed);
  for (uint64_t i = 0; i < n_; ++i)
    lines_[i].mark.store(0, std::memory_order_relaxed);
  boxes_of(room_->mine())[to_].store(at, std::memory_order_release);
  return DW_OK;
}

bool Outbox::has_room_now(uint64_t lines) {
  taken_ = box_->taken.load(std::memory_order_acquire);
  return next_ + lines + 1 - taken_ <= n_;
}

bool Outbox::put(const RecordHead& head, const void* data, size_t bytes,
                 bool awaited) {
  if (bytes <= kInLine) return put_line(head, data, bytes);
  const uint64_t lines = record_lines(bytes);
  const uint64_t left = n_ - place_of(next_);
  if (lines > left) {
    // A record does not wrap around the end of the ring.
    if (!has_room(left + lines)) return false;
    clear_mark(next_ + left);
    Line& skipped = line(next_);
    skipped.head = {Record::kSkip, 0, 0, 0, 0, 0};
    skipped.mark.store(next_ + 1, std::memory_order_release);
    next_ += left;
  } else if (!has_room(lines)) {
    return false;
  }
  Line& first = line(next_);
  clear_mark(next_ + lines);
  first.head = head;
  std::memcpy(first.inside, data, kInLine);
  std::memcpy(static_cast<void*>(&first + 1),
              static_cast<const char*>(data) + kInLine, bytes - kInLine);
  for (uint64_t i = 1; i < lines; ++i) has_data_[place_of(next_ + i)] = true;
  first.mark.store(next_ + 1, std::memory_order_release);
  next_ += lines;
  room_->wake(to_);
  if (awaited) hand_down(&first, lines * kLine);
  return true;
}

void Inbox::attach(const Room& room, int from) {
  room_ = &room;
  from_ = from;
  n_ = box_lines(room.size());
}

// Finds the mailbox, once the sender has taken memory for it.
Inbox::Found Inbox::open() {
  const uint64_t at = boxes_of(room_->area(from_))[room_->rank()].load(
      std::memory_order_acquire);
  if (at == 0) return Found::kNothing;
  char* const found = at % alignof(Box) == 0
                          ? room_->find(from_, at, box_bytes(room_->size()))
                          : nullptr;
  if (found == nullptr) return Found::kNonsense;
  box_ = reinterpret_cast<Box*>(found);
  lines_ = lines_of(*box_);
  return Found::kRecord;
}

Inbox::Found Inbox::look(RecordHead* head, const void** data) {
  if (lines_ == nullptr) {
    const Found found = open();
    if (found != Found::kRecord) return found;
  }
  for (;;) {
    const uint64_t place = next_ & (n_ - 1);
    Line& line = lines_[place];
    if (line.mark.load(std::memory_order_acquire) != next_ + 1)
      return Found::kNothing;
    *head = line.head;
    const uint64_t left = n_ - place;
    if (head->kind == Record::kSkip) {
      next_ += left;
      box_->taken.store(next_, std::memory_order_release);
      continue;
    }
    const bool carries =
        head->kind == Record::kWhole || head->kind == Record::kPart;
    if (carries && head->bytes > n_ * kLine) return Found::kNonsense;
    found_ = carries ? record_lines(static_cast<size_t>(head->bytes)) : 1;
    if (found_ > left) return Found::kNonsense;
    *data = line.inside;
    return Found::kRecord;
  }
}

// Called rarely: reading the readers' words costs a hand-over, and another one
// when they write again.
void Pool::look_for_free() {
  for (size_t chunk = 0; chunk < kChunks; ++chunk)
    if (room_->mine().freed[chunk].load(std::memory_order_acquire) ==
        uses_[chunk])
      free_ |= uint32_t{1} << chunk;
}

bool Pool::get(size_t bytes, int spare, char** at, uint64_t* place) {
  if (chunks_ == nullptr) {
    if (missing_) return false;
    size_t begin;
    missing_ = room_->take(kChunks * kChunkBytes, &begin, nullptr) != DW_OK;
    if (missing_) return false;
    chunks_ = room_->own(begin);
    room_->mine().pool.store(begin, std::memory_order_release);
  }
  if (std::popcount(free_) <= spare) look_for_free();
  if (std::popcount(free_) <= spare) return false;
  // A chunk that waits long for its receive does not block the others.
  const int skipped = std::countr_zero(std::rotr(free_, next_));
  const size_t chunk = static_cast<size_t>(next_ + skipped) % kChunks;
  free_ &= ~(uint32_t{1} << chunk);
  next_ = static_cast<int>((chunk + 1) % kChunks);
  uses_[chunk] = (uses_[chunk] + 1) & kUseMask;
  // The lines of a chunk are used in turn: the last ones are still in the
  // reader's cache.
  size_t& begin = begins_[chunk];
  if (begin + bytes > kChunkBytes) begin = 0;
  *at = chunks_ + chunk * kChunkBytes + begin;
  *place = static_cast<uint64_t>(chunk) << (kUseBits + kBeginBits) |
           static_cast<uint64_t>(begin / kLine) << kUseBits | uses_[chunk];
  begin = whole_lines(begin + bytes);
  return true;
}

bool Pool::put(const char* data, size_t bytes, int spare, bool past,
               uint64_t* place) {
  char* chunk;
  if (!get(bytes, spare, &chunk, place)) return false;
  if (past) {
    *place |= kPast;
    copy_past_caches(chunk, data, bytes);
    last_ = ahead_ = {};
    return true;
  }
  if (chunk == ahead_.at && bytes <= ahead_.bytes)
    copy_by_vectors(chunk, data, bytes);
  else
    copy_for_peers(chunk, data, bytes, false);
  last_ = {chunk, bytes};
  ahead_ = {};
  return true;
}

void Pool::prepare_next() {
  if (last_.bytes > kMostHandedDown) return;
  hand_down(last_.at, last_.bytes);
  const auto next = static_cast<size_t>(next_);
  const size_t begin =
      begins_[next] + last_.bytes > kChunkBytes ? 0 : begins_[next];
  ahead_ = {chunks_ + next * kChunkBytes + begin,
            std::min(last_.bytes, kMostAhead)};
  for (size_t i = 0; i < ahead_.bytes; i += kLine) take_ahead(ahead_.at + i);
}

const char* Pool::find(const Room& room, int owner, uint64_t place,
                       size_t bytes) {
  const uint64_t chunk = (place & ~kPast) >> (kUseBits + kBeginBits);
  const uint64_t begin =
      (place >> kUseBits & ((uint64_t{1} << kBeginBits) - 1)) * kLine;
  const uint64_t pool = room.area(owner).pool.load(std::memory_order_acquire);
  if (chunk >= kChunks || begin > kChunkBytes || bytes > kChunkBytes - begin ||
      pool > room.arena()->plot_bytes())
    return nullptr;
  return room.find(owner, pool + chunk * kChunkBytes + begin, bytes);
}

void Pool::fetch(uint64_t place, void* to, const void* from, size_t bytes,
                 bool past) {
  shm_backend::fetch(to, from, bytes, (place & kPast) != 0, past);
}

void Pool::give_back(const Room& room, int owner, uint64_t place) {
  const uint64_t chunk = place >> (kUseBits + kBeginBits);
  room.area(owner).freed[chunk % kChunks].store(place & kUseMask,
                                                std::memory_order_release);
  room.mine().pulse.store(place, std::memory_order_relaxed);
  room.wake(owner);
}

}  // namespace shm_backend
