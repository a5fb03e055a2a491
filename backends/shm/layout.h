// The memory that the ranks of a group segment share. layout.md describes it
// word by word. In the code the group segment is called arena, a rank's region
// of it plot, a rank's words for one group area, and a published slot post.
//
// Rank 0 writes the header once. Behind it each rank has a region, from which
// it takes what it needs for each of its groups: a control area at once;
// staging, mailboxes and a pool of chunks at their first use. Each word has one
// writer, the rank whose area it is. The exception is the bell, which any rank
// rings to wake the owner. A value read from here is checked before it serves
// as a length or a place.
//
// Behind the regions each rank has a heap: memory that callers allocated.
//
//   header | plot of rank 0 | plot of rank 1 | ... | heap of rank 0 | ...
#ifndef DISTWRAP_BACKENDS_SHM_LAYOUT_H_
#define DISTWRAP_BACKENDS_SHM_LAYOUT_H_

#include "tuning.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace shm_backend {

inline constexpr uint64_t kSegmentMagic = 0x6d6873'70617277ull;
inline constexpr int kMostRanks = 128;
inline constexpr size_t kLine = 64;
inline constexpr size_t kPage = 4096;
inline constexpr size_t whole_lines(size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}
inline constexpr uint32_t kPosts = 128;
inline constexpr size_t kInside = 48;
// Bytes of a group's first staging; larger staging is reserved later.
inline constexpr size_t kSmallStage = 32 << 10;

// A ticket numbers a round of an operation: the operation's number in the upper
// bits, the round in the lower ones. Tickets only grow, and may wrap.
inline constexpr uint32_t kRoundBits = 20;
inline constexpr uint64_t kLastRound = (uint64_t{1} << kRoundBits) - 1;

inline bool reached(uint64_t now, uint64_t ticket) {
  return static_cast<int64_t>(now - ticket) >= 0;
}
// The slot in which a round is published.
inline uint32_t line_of(uint64_t ticket) {
  return static_cast<uint32_t>((ticket >> kRoundBits) + (ticket & kLastRound)) %
         kPosts;
}

// A slot: what a rank publishes for all others in one round. `ticket` is stored
// last, with release. A slot has two cache lines, since processors fetch lines
// in pairs.
struct alignas(2 * kLine) Post {
  std::atomic<uint64_t> ticket;
  // Low half: the print (hash) of the call. High half: the cache line of the
  // publisher's region, or heap, where its data begin.
  std::atomic<uint64_t> what;
  unsigned char inside[kInside];  // the data, if they fit here

  // Byte offset of the data in the publisher's region; offsets behind the
  // region lie in its heap.
  size_t place() const {
    return static_cast<size_t>(what.load(std::memory_order_relaxed) >> 32) *
           kLine;
  }
};

enum class State : uint32_t { kOpen, kAborted, kMismatch, kClosed };

// A mailbox is a ring of cache lines from one rank to one other. A record
// begins in a line and continues in those that follow. Larger data lie in
// chunks of the sender's pool.
inline constexpr size_t kChunks = 32;
inline constexpr size_t kChunkBytes = 32 << 10;

enum class Record : uint16_t {
  kSkip,   // skip to the end of the ring
  kWhole,  // a whole message, in the record
  kAsk,    // a message's head, and its first data in a chunk or none
  kGo,     // answer to kAsk: a receive takes it
  kChunk,  // more data of a message, in a chunk
  kPart,   // more data of a message, in the record
  kLend,   // a message's head; the data stay in the sender's buffer
  kGot     // answer to kLend: all data have been read
};

struct RecordHead {
  Record kind;
  uint16_t type;  // element type, DW_DTYPE_<NAME>
  uint32_t id;    // the sender's number for a message that has more records
  uint64_t tag;
  uint64_t bytes;  // bytes of the message, or of this part
  // Either chunk, line in it and number of its use, 0 for no chunk; or an
  // address in the sender's process.
  uint64_t place;
};

struct Line {
  // The line's number, counted from 1 without end, is stored last. A line that
  // held data of a record is cleared before it can be mistaken for a mark.
  std::atomic<uint64_t> mark;
  RecordHead head;
  unsigned char inside[kLine - 8 - sizeof(RecordHead)];
};
static_assert(sizeof(Line) == kLine);

// The number of lines of a record with `bytes` of data.
inline size_t record_lines(size_t bytes) {
  constexpr size_t kFirst = sizeof Line::inside;
  return bytes <= kFirst ? 1 : 1 + (bytes - kFirst + kLine - 1) / kLine;
}

inline constexpr size_t kMostLines = 128;

struct alignas(2 * kLine) Box {
  std::atomic<uint64_t> taken;  // lines that the receiver has read
};

// A rank's control area in one group. Memory that was an area is only used as
// an area again, so that a late ring of its bell, for a group that has ended,
// still hits a bell. Behind the area follow, for each rank of the group, the
// offset in this region of the mailbox to that rank (0: none yet), and then a
// lane from each rank.
struct alignas(2 * kLine) Area {
  // The rank's random token in this group; 0 once it has left.
  std::atomic<uint64_t> token;
  std::atomic<uint32_t> state;
  std::atomic<uint64_t> pool;  // offset of the pool in the region; 0: none yet
  // The owner's process id, and the address of this area in that process.
  std::atomic<int32_t> process;
  std::atomic<uint64_t> itself;
  // The processor on which the owner last waited, counted from 1; a hint.
  std::atomic<int32_t> processor;
  // Whether the owner stages with non-temporal stores; a hint.
  std::atomic<uint32_t> writes_past;
  alignas(2 * kLine) std::atomic<uint32_t> sleepers;  // threads of the owner
  alignas(2 * kLine) std::atomic<uint32_t> bell;      // rung by the others
  // The round up to which the owner has read everything.
  alignas(2 * kLine) std::atomic<uint64_t> done;
  // The owner writes it after it has read a large piece. Other ranks load it to
  // measure how long a load of a line of this rank takes (distances.h).
  alignas(2 * kLine) std::atomic<uint64_t> pulse;
  // For each chunk of the owner's pool, the number of the use that its reader
  // has finished.
  alignas(2 * kLine) std::atomic<uint64_t> freed[kChunks];
  Post posts[kPosts];
};

// The state of one piece that CMA moves from one rank's buffer into the buffer
// of the rank that owns this area. The receiver reads parts from the front and
// the sender writes parts from the back until they meet.
struct alignas(2 * kLine) CmaPiece {
  // Parts that either side has begun: the low half is that of the operation's
  // number, then 16 bits count parts from the front and 16 from the back. All
  // ones: no further part may begin.
  std::atomic<uint64_t> begun;
  // Parts that have moved, with the operation's number in the high half.
  std::atomic<uint64_t> received;  // written by the receiver
  // The receiver's preferred way for each size, used by pairs.cc.
  std::atomic<uint64_t> prefers;
  alignas(kLine) std::atomic<uint64_t> sent;  // written by the sender
  // The write that the sender has in progress, as an iovec that the kernel
  // reads here, so that a receiver that gives up can withdraw it. The length is
  // 0 between writes.
  std::atomic<uint64_t> at, length;
};
inline constexpr uint64_t kNoMore = ~uint64_t{0};

using Place = std::atomic<uint64_t>;
inline Place* boxes_of(Area& area) {
  return reinterpret_cast<Place*>(&area + 1);
}
// Offset of the lanes from the beginning of an area.
inline size_t lanes_at(int size) {
  const size_t bytes = sizeof(Area) + static_cast<size_t>(size) * sizeof(Place);
  return (bytes + alignof(CmaPiece) - 1) / alignof(CmaPiece) *
         alignof(CmaPiece);
}
// The lanes into this area, indexed by the rank that sends.
inline CmaPiece* lanes_of(Area& area, int size) {
  return reinterpret_cast<CmaPiece*>(reinterpret_cast<char*>(&area) +
                                     lanes_at(size));
}
inline size_t area_bytes(int size) {
  return lanes_at(size) + static_cast<size_t>(size) * sizeof(CmaPiece);
}

// The number of lines of a mailbox, a power of two; smaller in large groups, so
// that all mailboxes of a rank together stay small.
inline size_t box_lines(int size) {
  return size <= 8 ? kMostLines : size <= 32 ? 64 : 32;
}
inline size_t box_bytes(int size) {
  return sizeof(Box) + box_lines(size) * kLine;
}

struct Header {
  uint64_t magic;
  uint64_t nonce;
  uint64_t uid, epoch;   // the group that made the segment
  uint64_t size;         // ranks
  uint64_t plot_bytes;   // bytes of each rank's region
  uint64_t stage_bytes;  // the large staging of a rank in a group
  uint64_t heap_bytes;   // bytes of each rank's heap, behind all regions
  Tuning tuning = {};    // rank 0's sizes, used by all ranks
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(Post) == 2 * kLine);
static_assert(sizeof(Area) == 135 * 2 * kLine);
static_assert(sizeof(CmaPiece) == 2 * kLine);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_LAYOUT_H_
