#include "mailbox.h"

#include "copy.h"

#include <algorithm>
#include <cstring>

namespace shm_backend {
namespace {

// A place: chunk, first line in it, and how often the chunk was used.
constexpr int kUseBits = 40, kBeginBits = 16;
constexpr uint64_t kUseMask = (uint64_t{1} << kUseBits) - 1;

size_t lines_of(size_t bytes) {
  constexpr size_t kFirst = sizeof Line::inside;
  return bytes <= kFirst ? 1 : 1 + (bytes - kFirst + kLine - 1) / kLine;
}

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
  // Other groups may have used it.
  box_->taken.store(0, std::memory_order_relaxed);
  for (uint64_t i = 0; i < n_; ++i)
    lines_[i].mark.store(0, std::memory_order_relaxed);
  boxes_of(room_->mine())[to_].store(at, std::memory_order_release);
  return DW_OK;
}

bool Outbox::has_room(uint64_t lines) {
  // One line stays free: the next mark is cleared in it.
  if (next_ + lines + 1 - taken_ <= n_) return true;
  taken_ = box_->taken.load(std::memory_order_acquire);
  return next_ + lines + 1 - taken_ <= n_;
}

void Outbox::clear_mark(uint64_t number) {
  bool& has_data = has_data_[number % n_];
  if (!has_data) return;
  has_data = false;
  line(number).mark.store(0, std::memory_order_relaxed);
}

bool Outbox::put(const RecordHead& head, const void* data, size_t bytes,
                 bool awaited) {
  const uint64_t lines = lines_of(bytes);
  const uint64_t left = n_ - next_ % n_;
  if (lines > left) {
    // Records do not go round the end.
    if (!has_room(left + lines)) return false;
    clear_mark(next_ + left);
    Line& skipped = line(next_);
    skipped.head = {Record::kSkip, 0, 0, 0, 0};
    skipped.mark.store(next_ + 1, std::memory_order_release);
    next_ += left;
  } else if (!has_room(lines)) {
    return false;
  }
  Line& first = line(next_);
  clear_mark(next_ + lines);
  first.head = head;
  const size_t inside = std::min(bytes, sizeof first.inside);
  if (inside != 0) std::memcpy(first.inside, data, inside);
  if (bytes > inside)
    std::memcpy(static_cast<void*>(&first + 1),
                static_cast<const char*>(data) + inside, bytes - inside);
  for (uint64_t i = 1; i < lines; ++i) has_data_[(next_ + i) % n_] = true;
  first.mark.store(next_ + 1, std::memory_order_release);
  next_ += lines;
  room_->wake(to_);
  if (awaited && lines > 1) hand_down(&first, lines * kLine);
  return true;
}

void Inbox::attach(const Room& room, int from) {
  room_ = &room;
  from_ = from;
  n_ = box_lines(room.size());
}

// Once the sender has one.
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
    Line& line = lines_[next_ % n_];
    if (line.mark.load(std::memory_order_acquire) != next_ + 1)
      return Found::kNothing;
    *head = line.head;
    const uint64_t left = n_ - next_ % n_;
    if (head->kind == Record::kSkip) {
      next_ += left;
      box_->taken.store(next_, std::memory_order_release);
      continue;
    }
    const bool carries =
        head->kind == Record::kWhole || head->kind == Record::kPart;
    if (carries && head->bytes > n_ * kLine) return Found::kNonsense;
    found_ = carries ? lines_of(static_cast<size_t>(head->bytes)) : 1;
    if (found_ > left) return Found::kNonsense;
    *data = line.inside;
    return Found::kRecord;
  }
}

void Inbox::take() {
  next_ += found_;
  box_->taken.store(next_, std::memory_order_release);
  room_->wake(from_);
}

bool Pool::is_free(size_t chunk) const {
  return room_->mine().freed[chunk].load(std::memory_order_acquire) ==
         uses_[chunk];
}

bool Pool::get(size_t bytes, size_t spare, char** at, uint64_t* place) {
  if (chunks_ == nullptr) {
    if (missing_) return false;
    size_t begin;
    missing_ = room_->take(kChunks * kChunkBytes, &begin, nullptr) != DW_OK;
    if (missing_) return false;
    chunks_ = room_->own(begin);
    room_->mine().pool.store(begin, std::memory_order_release);
  }
  // One that waits for its receive for long must not hold up the others.
  size_t chunk = kChunks, free = 0;
  for (size_t i = 0; i < kChunks; ++i) {
    const size_t one = (next_ + i) % kChunks;
    if (!is_free(one)) continue;
    if (chunk == kChunks) chunk = one;
    if (++free > spare) break;
  }
  if (free <= spare) return false;
  next_ = (chunk + 1) % kChunks;
  uses_[chunk] = (uses_[chunk] + 1) & kUseMask;
  // All of a chunk in turn: its last lines are still in the reader's cache.
  size_t& begin = begins_[chunk];
  if (begin + bytes > kChunkBytes) begin = 0;
  *at = chunks_ + chunk * kChunkBytes + begin;
  *place = static_cast<uint64_t>(chunk) << (kUseBits + kBeginBits) |
           static_cast<uint64_t>(begin / kLine) << kUseBits | uses_[chunk];
  begin = (begin + bytes + kLine - 1) / kLine * kLine;
  return true;
}

void Pool::take_ahead(size_t bytes) const {
  constexpr size_t kMostAhead = 16 * kLine;
  const size_t begin = begins_[next_];
  const size_t at =
      next_ * kChunkBytes + (begin + bytes > kChunkBytes ? 0 : begin);
  for (size_t i = 0; i < std::min(bytes, kMostAhead); i += kLine)
    shm_backend::take_ahead(chunks_ + at + i);
}

const char* Pool::find(const Room& room, int owner, uint64_t place,
                       size_t bytes) {
  const uint64_t chunk = place >> (kUseBits + kBeginBits);
  const uint64_t begin =
      (place >> kUseBits & ((uint64_t{1} << kBeginBits) - 1)) * kLine;
  const uint64_t pool = room.area(owner).pool.load(std::memory_order_acquire);
  if (chunk >= kChunks || begin > kChunkBytes || bytes > kChunkBytes - begin ||
      pool > room.arena()->plot_bytes())
    return nullptr;
  return room.find(owner, pool + chunk * kChunkBytes + begin, bytes);
}

void Pool::give_back(const Room& room, int owner, uint64_t place) {
  const uint64_t chunk = place >> (kUseBits + kBeginBits);
  room.area(owner).freed[chunk % kChunks].store(place & kUseMask,
                                                std::memory_order_release);
  room.wake(owner);
}

}  // namespace shm_backend
