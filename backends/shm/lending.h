// Rendezvous tuning: chooses which messages between two ranks the receiver
// reads in the sender's memory (lent: one copy by the kernel), and which go
// chunk by chunk (two copies, of which the second begins before the first has
// ended). Which is faster depends on the machine and the size. The receiver
// measures both: now and then some messages go one way or the other as a try,
// and after a message that it has read in the sender's memory the receiver
// tells which it prefers. Pieces whose sizes only two ranks know are sent by
// the same choice.
//
//   sender:    if (lending.lends(bytes, id)) ...
//              lending.heard(answer);
//   receiver:  if (lending.is_try(bytes, id)) ...
//              lending.took(bytes, lent, ns);
//              answer = lending.preferred();
//
// Several tries come in a row: the first finds the caches as the other way left
// them, and would be as slow as that way. Tries of one size may alternate with
// messages of other sizes.
//
// Threads: one at a time.
#ifndef DISTWRAP_BACKENDS_SHM_LENDING_H_
#define DISTWRAP_BACKENDS_SHM_LENDING_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace shm_backend {

class Lending {
 public:
  // Messages of at most kMoreThan or more than kMost bytes go by chunks.
  static constexpr size_t kMoreThan = 8 << 10, kMost = 1 << 20;
  static constexpr size_t kAnySize = SIZE_MAX;
  explicit Lending(size_t most = kMost) : most_(most) {}

  bool can_lend(size_t bytes) const {
    return bytes > kMoreThan && bytes <= most_;
  }
  // Whether message number `id` from one rank to another is a try.
  bool is_try(size_t bytes, uint32_t id) const {
    return can_lend(bytes) && (id < 2 * kTries || id % kTurn < kTries);
  }

  bool lends(size_t bytes, uint32_t id) const {
    if (!can_lend(bytes)) return false;
    if (is_try(bytes, id))
      return ((id < 2 * kTries ? id / kTries : id / kTurn) & 1) == 0;
    return (heard_ >> row_of(bytes) & 1) != 0;
  }
  // Takes the receiver's answer, unchecked: either way is correct.
  void heard(uint64_t preferred) { heard_ = preferred; }

  void took(size_t bytes, bool lent, int64_t ns) {
    int64_t& known = ns_[row_of(bytes)][lent ? 1 : 0];
    // Delays have many causes, so the shortest time counts and grows slowly.
    known = known == 0 || ns < known
                ? ns
                : known + (std::min(ns, 2 * known) - known) / 8;
  }
  // One bit for each range of sizes between two powers of two: lent is faster.
  uint64_t preferred() const {
    uint64_t rows = 0;
    for (int row = 0; row < kRows; ++row) {
      const int64_t chunks = ns_[row][0], lent = ns_[row][1];
      if (chunks == 0 || lent < chunks) rows |= uint64_t{1} << row;
    }
    return rows;
  }

 private:
  static constexpr uint32_t kTries = 8, kTurn = 127;
  static constexpr int kRows = 16;
  static int row_of(size_t bytes) {
    const int doubled =
        static_cast<int>(std::bit_width((bytes - 1) / kMoreThan)) - 1;
    return std::min(doubled, kRows - 1);
  }

  size_t most_;
  uint64_t heard_ = ~uint64_t{0};
  int64_t ns_[kRows][2] = {};
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_LENDING_H_
