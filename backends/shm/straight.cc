#include "straight.h"

#include "run.h"

#include <algorithm>
#include <cstring>
#include <sched.h>

namespace shm_backend {
namespace {

constexpr size_t kSmallestPart = 16 << 10, kLargestPart = 512 << 10;
constexpr size_t kMostParts = 30000;  // 16 bits count them, from both ends
// Bytes moved before the clock is read.
constexpr size_t kTurn = 1 << 20;

size_t up(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15u;
  return value ^ value >> 29;
}

uint64_t address(const char* at) { return reinterpret_cast<uintptr_t>(at); }

// The two counts in `CmaPiece::begun`.
uint32_t front_of(uint64_t begun) { return begun >> 16 & 0xffff; }
uint32_t back_of(uint64_t begun) { return begun & 0xffff; }
constexpr uint64_t kTags = ~uint64_t{0} << 32;
constexpr uint64_t kFront = 1 << 16;

}  // namespace

// A table entry: the buffers of a rank, for one other rank.
struct Straight::Entry {
  uint64_t gives, takes;  // bytes
  uint64_t from;          // address of the given piece
  uint64_t to;            // address for the taken piece
  uint64_t seal;
};

Straight::Straight(Run& run, size_t parts, uint32_t round)
    : run_(run),
      parts_(parts),
      round_(round),
      inside_(run.size == 2),
      tag_(run.number() << 32) {
  static_assert(sizeof(Entry) <= kInside);
  for (PeerTransfers& way : run.comm->ways) way = {};
}

PeerTransfers& Straight::way(int other) const {
  return run_.comm->ways[static_cast<size_t>(other)];
}

CmaPiece& Straight::lane(int from, int to) const {
  return run_.comm->room.lane(from, to);
}

void Straight::give(int to, Piece piece) {
  shows_ = true;
  PeerTransfers& way = this->way(to);
  way.give.piece = piece;
  way.give.open = way.due = true;
  bytes_ += piece.bytes;
}

void Straight::take(int from, Piece piece) {
  shows_ = true;
  PeerTransfers& way = this->way(from);
  way.take.piece = piece;
  way.take.open = way.due = true;
  bytes_ += piece.bytes;
}

void Straight::keep(Piece to, Piece from) {
  own_to_ = to;
  own_from_ = from;
}

bool Straight::go() {
  open_lanes();
  if (shows_) show();
  if (!run_.failed()) run_.keep(own_to_.at, own_from_.at, own_to_.bytes);
  if (!run_.failed() && run_.wait(*this) && !run_.failed()) return true;
  give_up();
  return false;
}

// ---- parts ----

// Every rank of a transfer computes equal values.
size_t Straight::part_bytes(size_t all) const {
  const size_t part =
      std::clamp(up(all / parts_, kPage), kSmallestPart, kLargestPart);
  return std::max(part, up(all / kMostParts, kPage));
}

uint32_t Straight::parts_of(size_t all) const {
  const size_t part = part_bytes(all);
  return static_cast<uint32_t>((all + part - 1) / part);
}

Straight::Range Straight::part_of(size_t all, uint32_t number) const {
  const size_t part = part_bytes(all);
  return {number * part, std::min(part, all - number * part)};
}

// Takes the next part from one end. False: all parts have been begun; the
// number begun from each end is final then.
bool Straight::begin_part(CmaPiece& lane, PeerTransfers::End& end, bool back,
                          uint32_t* number) const {
  if (end.is_begun) return false;
  const uint32_t parts = parts_of(end.piece.bytes);
  uint64_t begun = lane.begun.load(std::memory_order_acquire);
  do {
    if ((begun & kTags) != tag_) return false;
    if (front_of(begun) + back_of(begun) >= parts) {
      end.is_begun = true;
      end.front = front_of(begun);
      end.back = back_of(begun);
      return false;
    }
  } while (!lane.begun.compare_exchange_weak(begun, begun + (back ? 1 : kFront),
                                             std::memory_order_acq_rel,
                                             std::memory_order_acquire));
  *number = back ? parts - 1 - back_of(begun) : front_of(begun);
  return true;
}

// The receiver may have finished already and be using the lane again.
bool Straight::is_received(int other, const CmaPiece& lane,
                           const PeerTransfers::End& give) const {
  const uint64_t parts = lane.received.load(std::memory_order_acquire);
  if ((parts & kTags) != tag_) return run_.has_ended(other);
  return give.is_begun && parts == (tag_ | give.front);
}

bool Straight::is_sent(const CmaPiece& lane,
                       const PeerTransfers::End& take) const {
  return take.is_begun && take.moved == take.front &&
         (take.back == 0 ||
          lane.sent.load(std::memory_order_acquire) == (tag_ | take.back));
}

// ---- the table of places ----

uint64_t Straight::seal_of(int owner, int other, const Entry& entry) const {
  const uint64_t key = run_.comm->keys[static_cast<size_t>(owner)];
  // Odd factors: every bit counts.
  const uint64_t sum =
      key + run_.number() * 0x9e3779b97f4a7c15u +
      (static_cast<uint64_t>(other) ^ key) * 0xff51afd7ed558ccdu +
      (entry.gives ^ key) * 0xc4ceb9fe1a85ec53u +
      (entry.takes ^ key) * 0xbf58476d1ce4e5b9u +
      (entry.from ^ key) * 0x94d049bb133111ebu +
      (entry.to ^ key) * 0xd6e8feb86659fd93u;
  return mix(sum);
}

// Called before the addresses are published. The receiver has begun the first
// part.
void Straight::open_lanes() {
  for (int other = 0; other < run_.size; ++other) {
    if (!way(other).take.open) continue;
    CmaPiece& mine = lane(other, run_.rank);
    mine.received.store(tag_, std::memory_order_relaxed);
    mine.begun.store(tag_ | kFront, std::memory_order_release);
  }
}

void Straight::show() {
  const size_t bytes =
      inside_ ? sizeof(Entry) : static_cast<size_t>(run_.size) * sizeof(Entry);
  char* const table = run_.prepare(round_, bytes, !inside_);
  if (table == nullptr) return;
  for (int other = 0; other < run_.size; ++other) {
    if (other == run_.rank) continue;
    const Piece give = way(other).give.piece, take = way(other).take.piece;
    Entry entry = {give.bytes, take.bytes, address(give.at), address(take.at),
                   0};
    entry.seal = seal_of(run_.rank, other, entry);
    const size_t at = inside_ ? 0 : static_cast<size_t>(other) * sizeof entry;
    std::memcpy(table + at, &entry, sizeof entry);
  }
  run_.show_prepared(round_);
}

// Reads and checks what `other` has published.
void Straight::see(int other) {
  PeerTransfers& way = this->way(other);
  way.due = false;
  const size_t mine = static_cast<size_t>(run_.rank) * sizeof(Entry);
  const char* const at =
      inside_ ? run_.look(other, round_, sizeof(Entry))
              : run_.look(other, round_, Run::kStaged, mine, sizeof(Entry));
  if (at == nullptr) return;
  Entry entry;
  std::memcpy(&entry, at, sizeof entry);
  if (entry.seal != seal_of(other, run_.rank, entry))
    return run_.fail_nonsense(other);
  if (entry.gives != way.take.piece.bytes ||
      entry.takes != way.give.piece.bytes)
    return run_.fail_mismatch(other);
  way.take.there = entry.from;
  way.give.there = entry.to;
}

// ---- moving ----

// Whether a transfer with `other` will not end. A rank that has given up
// announces that before its memory is used again.
bool Straight::is_gone(int other, Reach::Got got) {
  if (got != Reach::Got::kGone &&
      run_.comm->room.state(other) == State::kOpen) {
    if (got == Reach::Got::kNonsense) run_.fail_nonsense(other);
    return got == Reach::Got::kNonsense;
  }
  return way(other).lost = true;
}

// Reads one part. True when a part has moved.
bool Straight::pull(int other) {
  PeerTransfers::End& take = way(other).take;
  CmaPiece& lane = this->lane(other, run_.rank);
  uint32_t number = 0;  // the part that was begun
  if (take.moved != 0 && !begin_part(lane, take, false, &number)) {
    take.open = !is_sent(lane, take);
    return false;
  }
  const Range part = part_of(take.piece.bytes, number);
  const Reach::Got got = run_.comm->reaches[static_cast<size_t>(other)].read(
      take.piece.at + part.at, take.there + part.at, part.bytes);
  if (is_gone(other, got)) return false;
  lane.received.store(tag_ | ++take.moved, std::memory_order_release);
  run_.comm->room.wake(other);
  moved_ += part.bytes;
  return true;
}

bool Straight::push(int other) {
  PeerTransfers::End& give = way(other).give;
  CmaPiece& lane = this->lane(run_.rank, other);
  uint32_t number;
  if (!begin_part(lane, give, true, &number)) {
    give.open = !is_received(other, lane, give);
    return false;
  }
  const Range part = part_of(give.piece.bytes, number);
  lane.at.store(give.there + part.at, std::memory_order_relaxed);
  uint64_t length = 0;
  if (!lane.length.compare_exchange_strong(length, part.bytes)) {
    way(other).lost = true;  // the receiver has given up
    return false;
  }
  const Reach::Got got = run_.comm->reaches[static_cast<size_t>(other)].write(
      lane, give.piece.at + part.at, part.bytes);
  length = part.bytes;
  if (!lane.length.compare_exchange_strong(length, 0)) {
    // the receiver waits for that
    lane.sent.store(kNoMore, std::memory_order_release);
    way(other).lost = true;
    return false;
  }
  if (is_gone(other, got)) return false;
  lane.sent.store(tag_ | ++give.moved, std::memory_order_release);
  run_.comm->room.wake(other);
  moved_ += part.bytes;
  return true;
}

// Reads first, since perhaps no other rank can. True when a part has moved.
bool Straight::move_some() {
  bool moved = false;
  const auto other_of = [this](int i) {
    return run_.rank + i < run_.size ? run_.rank + i
                                     : run_.rank + i - run_.size;
  };
  for (int i = 1; i < run_.size && !run_.failed(); ++i) {
    const int other = other_of(i);
    PeerTransfers& way = this->way(other);
    if (way.due && run_.is_shown(other, round_)) see(other);
    if (way.take.open && !way.due && !way.lost && !run_.failed())
      moved |= pull(other);
  }
  for (int i = 1; i < run_.size && !moved && !run_.failed(); ++i) {
    const int other = other_of(i);
    const PeerTransfers& way = this->way(other);
    if (way.give.open && !way.due && !way.lost) moved = push(other);
  }
  return moved;
}

bool Straight::holds() {
  moved_ = 0;
  while (moved_ < kTurn && move_some()) {
  }
  if (run_.failed()) return true;
  for (int other = 0; other < run_.size; ++other)
    if (awaits(other)) return false;
  return true;
}

bool Straight::awaits(int rank) {
  const PeerTransfers& way = this->way(rank);
  return way.due || way.give.open || way.take.open;
}

// Assumes 4 GB/s.
int64_t Straight::busy_ns() { return static_cast<int64_t>(bytes_ / 4); }

void Straight::give_up() {
  Comm* const comm = run_.comm;
  // The state is set first, so that a rank that reads here does not take later
  // data for the operation's.
  comm->room.leave(State::kAborted);
  const int64_t end = comm->host->now_ns(comm->host->self) + kLastWriteNs;
  for (int other = 0; other < run_.size; ++other)
    if (way(other).take.piece.bytes != 0) stop_writes_of(other, comm, end);
}

void stop_writes_of(int from, Comm* comm, int64_t end_ns) {
  CmaPiece& mine = comm->room.lane(from, comm->rank);
  mine.begun.store(kNoMore, std::memory_order_release);
  // no write is in progress
  if (mine.length.exchange(kNoMore) == 0) return;
  while (mine.sent.load(std::memory_order_acquire) != kNoMore &&
         !comm->room.has_died(from) &&
         comm->host->now_ns(comm->host->self) < end_ns)
    sched_yield();
}

}  // namespace shm_backend
