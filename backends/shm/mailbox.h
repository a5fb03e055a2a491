// Records from one rank to another, and the pool of chunks for what is large.
//
// Threads: one at a time for each object.
#ifndef DISTWRAP_BACKENDS_SHM_MAILBOX_H_
#define DISTWRAP_BACKENDS_SHM_MAILBOX_H_

#include "room.h"

namespace shm_backend {

// The sender's end.
class Outbox {
 public:
  void attach(Room& room, int to);
  // What a record can carry.
  size_t most() const { return most_; }
  // Memory for it, once. DW_OK, or there is none.
  int32_t open(dw_error* error);
  bool is_open() const { return lines_ != nullptr; }
  // False when there is no room now. `awaited`: the receiver may be waiting.
  bool put(const RecordHead& head, const void* data, size_t bytes,
           bool awaited = false);

 private:
  Line& line(uint64_t number) const { return lines_[number % n_]; }
  bool has_room(uint64_t lines);
  void clear_mark(uint64_t number);

  Room* room_ = nullptr;
  int to_ = 0;
  Box* box_ = nullptr;
  Line* lines_ = nullptr;
  uint64_t n_ = 1;
  size_t most_ = 0;
  uint64_t next_ = 0, taken_ = 0;
  // Lines in which data may look like a mark.
  bool has_data_[kMostLines] = {};
};

// The receiver's end.
class Inbox {
 public:
  void attach(const Room& room, int from);
  enum class Found { kNothing, kRecord, kNonsense };
  // The next record: its head is a copy, its data are looked at in place.
  Found look(RecordHead* head, const void** data);
  // Lets go of what was found.
  void take();

 private:
  Found open();

  const Room* room_ = nullptr;
  int from_ = 0;
  Box* box_ = nullptr;
  Line* lines_ = nullptr;
  uint64_t n_ = 1;
  uint64_t next_ = 0, found_ = 0;
};

// The chunks of this rank.
class Pool {
 public:
  void attach(Room& room) { room_ = &room; }
  // A chunk of which `bytes` are wanted, its address and its place; false when
  // none is free, or fewer than `spare` others.
  bool get(size_t bytes, size_t spare, char** at, uint64_t* place);
  // The lines that the next one, if it is as long, will write first.
  void take_ahead(size_t bytes) const;
  // There is no memory for it.
  bool missing() const { return missing_; }

  // Of another rank: NULL when the place is none.
  static const char* find(const Room& room, int owner, uint64_t place,
                          size_t bytes);
  static void give_back(const Room& room, int owner, uint64_t place);

 private:
  bool is_free(size_t chunk) const;

  Room* room_ = nullptr;
  char* chunks_ = nullptr;
  bool missing_ = false;
  size_t next_ = 0;
  uint64_t uses_[kChunks] = {};
  size_t begins_[kChunks] = {};
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MAILBOX_H_
