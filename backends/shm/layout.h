// What lies in the memory that the ranks of an arena share.
//
// A header that the first rank writes once, then a plot for each rank, from
// which it takes what it needs for the groups that it is in: a control area for
// each, and staging, mailboxes and a pool when they are first used. Each word
// has one writer, the rank whose area it is; the bell, which wakes that rank,
// is the exception. Nothing that is read from here is used as a length or a
// place before it was checked.
//
// Behind the plots is a heap for each rank: memory that the caller asked for.
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
// Staging of a group at first; what is larger is reserved later.
inline constexpr size_t kSmallStage = 32 << 10;

// Tickets number the rounds of all operations of a group: the operation's
// number, then the round within it. They only grow, and may wrap.
inline constexpr uint32_t kRoundBits = 20;
inline constexpr uint64_t kLastRound = (uint64_t{1} << kRoundBits) - 1;

inline bool reached(uint64_t now, uint64_t ticket) {
  return static_cast<int64_t>(now - ticket) >= 0;
}
// In which post a round is shown.
inline uint32_t line_of(uint64_t ticket) {
  return static_cast<uint32_t>((ticket >> kRoundBits) + (ticket & kLastRound)) %
         kPosts;
}

// What a rank tells all others in one round. Written before `ticket`, which is
// released; two lines apart, because processors fetch lines in pairs.
struct alignas(2 * kLine) Post {
  std::atomic<uint64_t> ticket;
  // Print of the call, and the line of the poster's staging where data begins.
  std::atomic<uint64_t> what;
  unsigned char inside[kInside];  // or the data themselves
};

enum class State : uint32_t { kOpen, kAborted, kMismatch, kClosed };

// Messages. A mailbox is a ring of lines from one rank to one other; a record
// in it is a line and what does not fit that line in those that follow. The
// pool is memory of the sender for what is larger, in chunks.
inline constexpr size_t kChunks = 32;
inline constexpr size_t kChunkBytes = 32 << 10;

enum class Record : uint32_t {
  kSkip,   // nothing up to the end of the ring
  kWhole,  // a message, in the record
  kAsk,    // the head of a message, and its beginning in a chunk or nothing
  kGo,     // the answer: somebody takes it
  kChunk,  // more of it, in a chunk
  kPart,   // more of it, in the record
  kLend,   // the head of a message that lies in the sender's own memory
  kGot     // the answer: all of it has been read there
};

struct RecordHead {
  Record kind;
  uint32_t id;  // the sender's, of a message whose head has gone before
  uint64_t tag;
  uint64_t bytes;  // of the message, or of this part of it
  // Chunk, line in it, use of it, 0 for none; or an address of the sender's.
  uint64_t place;
};

struct Line {
  // The number of the line, counted from one for ever, once the record is
  // there. Where data of a record stood it is cleared before that is looked at.
  std::atomic<uint64_t> mark;
  RecordHead head;
  unsigned char inside[kLine - 8 - sizeof(RecordHead)];
};
static_assert(sizeof(Line) == kLine);

// Of a record with so many data.
inline size_t record_lines(size_t bytes) {
  constexpr size_t kFirst = sizeof Line::inside;
  return bytes <= kFirst ? 1 : 1 + (bytes - kFirst + kLine - 1) / kLine;
}

inline constexpr size_t kMostLines = 128;

struct alignas(2 * kLine) Box {
  std::atomic<uint64_t> taken;  // lines, by the receiver
};

// Of a rank in one group. An area stays one for ever: a bell that is rung late,
// for a group that has ended, is still a bell. Behind it, for each rank of the
// group, is where in the plot the mailbox to that rank begins; 0: nowhere yet.
// Then, for each, a lane from it.
struct alignas(2 * kLine) Area {
  // Random, of this rank in this group; 0 when it has left.
  std::atomic<uint64_t> token;
  std::atomic<uint32_t> state;
  std::atomic<uint64_t> pool;  // where in the plot it begins; 0: nowhere yet
  // As the owner knows them: its process, and where it has mapped this.
  std::atomic<int32_t> process;
  std::atomic<uint64_t> itself;
  // On which it last waited, counted from 1; a hint.
  std::atomic<int32_t> processor;
  // Whether it writes its staging past its caches; a hint.
  std::atomic<uint32_t> writes_past;
  alignas(2 * kLine) std::atomic<uint32_t> sleepers;  // threads of the owner
  alignas(2 * kLine) std::atomic<uint32_t> bell;      // rung by the others
  // The round up to which the owner has read everything.
  alignas(2 * kLine) std::atomic<uint64_t> done;
  // Written when the owner has read something large, and loaded by others who
  // want to know how long that takes.
  alignas(2 * kLine) std::atomic<uint64_t> pulse;
  // By chunk of the owner's pool: the use of it that its reader has ended.
  alignas(2 * kLine) std::atomic<uint64_t> freed[kChunks];
  Post posts[kPosts];
};

// What goes straight from the buffer of one rank into that of another, in whose
// area this is. The receiver reads parts of it from the front, the sender
// writes parts from the back, until they meet.
struct alignas(2 * kLine) Lane {
  // Parts that somebody has begun with: the low half of the operation's number,
  // 16 bits from the front, 16 from the back. All ones: no more may be.
  std::atomic<uint64_t> begun;
  // Parts that have ended, each after its operation's number.
  std::atomic<uint64_t> received;  // by the receiver
  // Which sizes it would rather read where they lie, of pairs.cc.
  std::atomic<uint64_t> prefers;
  alignas(kLine) std::atomic<uint64_t> sent;  // by the sender
  // What the sender writes just now, as an iovec that the kernel reads here: so
  // a receiver that gives up can take it back. The length is 0 in between.
  std::atomic<uint64_t> at, length;
};
inline constexpr uint64_t kNoMore = ~uint64_t{0};

using Place = std::atomic<uint64_t>;
inline Place* boxes_of(Area& area) {
  return reinterpret_cast<Place*>(&area + 1);
}
// From the area's beginning.
inline size_t lanes_at(int size) {
  const size_t bytes = sizeof(Area) + static_cast<size_t>(size) * sizeof(Place);
  return (bytes + alignof(Lane) - 1) / alignof(Lane) * alignof(Lane);
}
// By the rank that sends.
inline Lane* lanes_of(Area& area, int size) {
  return reinterpret_cast<Lane*>(reinterpret_cast<char*>(&area) +
                                 lanes_at(size));
}
inline size_t area_bytes(int size) {
  return lanes_at(size) + static_cast<size_t>(size) * sizeof(Lane);
}

// Lines of a mailbox, a power of two: all mailboxes of a rank together stay
// small.
inline size_t box_lines(int size) {
  return size <= 8 ? kMostLines : size <= 32 ? 64 : 32;
}
inline size_t box_bytes(int size) {
  return sizeof(Box) + box_lines(size) * kLine;
}

struct Header {
  uint64_t magic;
  uint64_t nonce;
  uint64_t uid, epoch;   // of the group that made it
  uint64_t size;         // ranks
  uint64_t plot_bytes;   // of each
  uint64_t stage_bytes;  // the large staging of a rank in a group
  uint64_t heap_bytes;   // of each, behind all plots
  Tuning tuning = {};    // what all ranks go by
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(Post) == 2 * kLine);
static_assert(sizeof(Area) == 135 * 2 * kLine);
static_assert(sizeof(Lane) == 2 * kLine);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_LAYOUT_H_
