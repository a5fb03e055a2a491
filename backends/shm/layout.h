// What lies in the shared memory of a group.
//
// A header that the first rank writes once, then for every rank a control area
// and its staging. Each word has one writer, the rank whose area it is; the
// bell, which wakes that rank, is the exception. Nothing that is read from
// here is used as a length or a place before it was checked.
//
//   header | area of rank 0, 1, ... | staging of rank 0, 1, ... |
//   mailboxes from rank 0 to 0, 1, ..., from rank 1 ... | pool of rank 0, 1 ...
#ifndef DISTWRAP_BACKENDS_SHM_LAYOUT_H_
#define DISTWRAP_BACKENDS_SHM_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace shm_backend {

inline constexpr uint64_t kSegmentMagic = 0x6d6873'70617277ull;
inline constexpr int kMostRanks = 128;
inline constexpr size_t kLine = 64;
inline constexpr size_t kPage = 4096;
inline constexpr uint32_t kPosts = 32;
inline constexpr size_t kInside = 48;
// Staging that every rank has from the start; the rest is reserved later.
inline constexpr size_t kSmallStage = 32 << 10;

// Tickets number the rounds of all operations of a group: the operation's
// number, then the round within it. They only grow, and may wrap.
inline constexpr uint32_t kRoundBits = 20;
inline constexpr uint64_t kLastRound = (uint64_t{1} << kRoundBits) - 1;

inline bool reached(uint64_t now, uint64_t ticket) {
  return static_cast<int64_t>(now - ticket) >= 0;
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
inline constexpr size_t kChunks = 8;
inline constexpr size_t kChunkBytes = 128 << 10;

enum class Record : uint32_t {
  kSkip,   // nothing up to the end of the ring
  kWhole,  // a message, in the record
  kAsk,    // the head of a message, and its beginning in a chunk or nothing
  kGo,     // the answer: somebody takes it
  kChunk,  // more of it, in a chunk
  kPart    // more of it, in the record
};

struct RecordHead {
  Record kind;
  uint32_t id;  // the sender's, of a message whose head has gone before
  uint64_t tag;
  uint64_t bytes;  // of the message, or of this part of it
  uint64_t place;  // chunk, line in it, use of it; 0 for none
};

struct Line {
  // The number of the line, counted from one for ever, once the record is
  // there. Where data of a record stood it is cleared before that is looked at.
  std::atomic<uint64_t> mark;
  RecordHead head;
  unsigned char inside[kLine - 8 - sizeof(RecordHead)];
};
static_assert(sizeof(Line) == kLine);

inline constexpr size_t kMostLines = 128;

struct alignas(2 * kLine) Box {
  std::atomic<uint64_t> taken;  // lines, by the receiver
};

struct alignas(kPage) Area {
  std::atomic<uint64_t> token;  // the owner's, once it has mapped this
  std::atomic<uint32_t> state;
  alignas(2 * kLine) std::atomic<uint32_t> sleepers;  // threads of the owner
  alignas(2 * kLine) std::atomic<uint32_t> bell;      // rung by the others
  // The round up to which the owner has read everything.
  alignas(2 * kLine) std::atomic<uint64_t> done;
  // By chunk of the owner's pool: the use of it that its reader has ended.
  alignas(2 * kLine) std::atomic<uint64_t> freed[kChunks];
  Post posts[kPosts];
};

struct Header {
  uint64_t magic;
  uint64_t nonce;
  uint64_t uid, epoch;
  uint64_t size;         // ranks
  uint64_t stage_bytes;  // of each rank
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(Post) == 2 * kLine);
static_assert(sizeof(Area) == 2 * kPage);

// Where everything begins, for so many ranks with so much staging each.
struct Layout {
  size_t size = 0, stage_bytes = 0;

  size_t area(size_t rank) const { return kPage + rank * sizeof(Area); }
  size_t stage(size_t rank) const { return area(size) + rank * stage_bytes; }
  // Lines of a mailbox: all mailboxes of a rank together stay small.
  size_t lines() const { return size <= 8 ? kMostLines : size <= 32 ? 64 : 32; }
  size_t box_bytes() const { return sizeof(Box) + lines() * kLine; }
  size_t boxes_bytes() const {
    return (size * box_bytes() + kPage - 1) / kPage * kPage;
  }
  size_t boxes(size_t from) const { return stage(size) + from * boxes_bytes(); }
  size_t pool(size_t rank) const {
    return boxes(size) + rank * kChunks * kChunkBytes;
  }
  size_t total() const { return pool(size); }
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_LAYOUT_H_
