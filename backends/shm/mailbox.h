// Mailboxes carry records from one rank to another; a pool of chunks carries
// large data.
//
// Threads: one at a time for each object.
#ifndef DISTWRAP_BACKENDS_SHM_MAILBOX_H_
#define DISTWRAP_BACKENDS_SHM_MAILBOX_H_

#include "room.h"
#include "sdk/buffers.h"

namespace shm_backend {

using dw_sdk::Piece;

// The sender's end.
class Outbox {
 public:
  void attach(Room& room, int to);
  // Most bytes of data in one record.
  size_t most() const { return most_; }
  // Takes memory for the mailbox at the first use. DW_OK, or there is none.
  int32_t open(dw_error* error);
  bool is_open() const { return lines_ != nullptr; }
  // Writes a record. False when the ring is full. `awaited`: the receiver may
  // be waiting for it.
  bool put(const RecordHead& head, const void* data, size_t bytes,
           bool awaited = false);
  // As `put`, for at most kInLine bytes, inlined for speed.
  static constexpr size_t kInLine = sizeof Line::inside;
  [[gnu::always_inline]] bool put_line(const RecordHead& head, const void* data,
                                       size_t bytes) {
    if (!has_room(1)) return false;
    Line& line = this->line(next_);
    clear_mark(next_ + 1);
    line.head.kind = head.kind;  // field by field: see as_stored in call.h
    line.head.type = head.type;
    line.head.id = head.id;
    line.head.tag = head.tag;
    line.head.bytes = head.bytes;
    line.head.place = head.place;
    if (bytes != 0) __builtin_memcpy(line.inside, data, bytes);
    line.mark.store(++next_, std::memory_order_release);
    room_->wake(to_);
    return true;
  }

 private:
  Line& line(uint64_t number) const { return lines_[place_of(number)]; }
  uint64_t place_of(uint64_t number) const { return number & (n_ - 1); }
  // One line stays free, since the next mark is cleared in it.
  bool has_room(uint64_t lines) {
    return next_ + lines + 1 - taken_ <= n_ || has_room_now(lines);
  }
  bool has_room_now(uint64_t lines);
  void clear_mark(uint64_t number) {
    bool& has_data = has_data_[place_of(number)];
    if (!has_data) return;
    has_data = false;
    line(number).mark.store(0, std::memory_order_relaxed);
  }

  Room* room_ = nullptr;
  int to_ = 0;
  Box* box_ = nullptr;
  Line* lines_ = nullptr;
  uint64_t n_ = 1;  // a power of two
  size_t most_ = 0;
  uint64_t next_ = 0, taken_ = 0;
  // Lines whose data a reader could take for a mark.
  bool has_data_[kMostLines] = {};
};

// The receiver's end.
class Inbox {
 public:
  void attach(const Room& room, int from);
  enum class Found { kNothing, kRecord, kNonsense };
  // Finds the next record: copies its head and points to its data in place.
  Found look(RecordHead* head, const void** data);
  // Frees the record that was found last.
  void take() {
    next_ += found_;
    box_->taken.store(next_, std::memory_order_release);
    room_->wake(from_);
  }
  // The line in which the next record begins; NULL when none has come or it is
  // not valid.
  [[gnu::always_inline]] const Line* next() {
    if (lines_ == nullptr && open() != Found::kRecord) return nullptr;
    const Line& line = lines_[next_ & (n_ - 1)];
    return line.mark.load(std::memory_order_acquire) == next_ + 1 ? &line
                                                                  : nullptr;
  }
  // Whether a record with `bytes` of data fits there before the end of the
  // ring.
  bool can_hold(size_t bytes) const {
    return record_lines(bytes) <= n_ - (next_ & (n_ - 1));
  }
  void take(size_t bytes) {
    found_ = record_lines(bytes);
    take();
  }

 private:
  Found open();

  const Room* room_ = nullptr;
  int from_ = 0;
  Box* box_ = nullptr;
  Line* lines_ = nullptr;
  uint64_t n_ = 1;  // a power of two
  uint64_t next_ = 0, found_ = 0;
};

// This rank's pool of chunks.
class Pool {
 public:
  void attach(Room& room) { room_ = &room; }
  // Copies data into a free chunk and sets its `place`. False when no chunk is
  // free, or fewer than `spare` would stay free. `past`: with non-temporal
  // stores.
  bool put(const char* data, size_t bytes, int spare, bool past,
           uint64_t* place);
  // Called when a receiver waits for the last data: hands them down to the
  // shared cache, and fetches for writing the lines that the next message takes
  // if it is as long.
  void prepare_next();
  // Whether memory for the pool could not be reserved.
  bool missing() const { return missing_; }

  // Data in another rank's chunk; NULL when `place` is not valid.
  static const char* find(const Room& room, int owner, uint64_t place,
                          size_t bytes);
  static void give_back(const Room& room, int owner, uint64_t place);
  // Copies data of a chunk to a caller's buffer. `past`: with non-temporal
  // stores.
  static void fetch(uint64_t place, void* to, const void* from, size_t bytes,
                    bool past);

 private:
  bool get(size_t bytes, int spare, char** at, uint64_t* place);
  void look_for_free();

  Room* room_ = nullptr;
  char* chunks_ = nullptr;
  bool missing_ = false;
  // Chunks that were free at the last look and have not been used since, one
  // bit each.
  uint32_t free_ = 0;
  static_assert(kChunks == 32);
  int next_ = 0;
  uint64_t uses_[kChunks] = {};
  size_t begins_[kChunks] = {};
  Piece last_;
  // The part whose lines were fetched before they are written.
  Piece ahead_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MAILBOX_H_
