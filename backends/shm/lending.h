// Which messages between two ranks are read where they lie, and which go chunk
// by chunk: one copy by the kernel, or two of our own, of which the second
// begins before the first has ended. Which is faster depends on the machine and
// the size. The receiver sees what each takes, so now and then a message goes
// one way or the other for the sake of that, and the receiver says what it
// prefers when it has read one. Pieces of which only two ranks know the size go
// one of these ways likewise.
//
//   sender: if (lending.lends(bytes, id)) ...      lending.heard(answer)
//   receiver: if (lending.is_try(bytes, id)) ...   lending.took(bytes, lent,
//   ns)
//             answer = lending.preferred()
//
// Tries come several in a row: the first of them finds the caches as the other
// way has left them, and would take as long as that one for it. Messages of one
// size in turn with others of another are among them as well.
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
  // What is smaller or larger goes by chunks.
  static constexpr size_t kMoreThan = 8 << 10, kMost = 1 << 20;
  static constexpr size_t kAnySize = SIZE_MAX;
  explicit Lending(size_t most = kMost) : most_(most) {}

  bool can_lend(size_t bytes) const {
    return bytes > kMoreThan && bytes <= most_;
  }
  // Of messages of that size: `id` counts all from one rank to another.
  bool is_try(size_t bytes, uint32_t id) const {
    return can_lend(bytes) && (id < 2 * kTries || id % kTurn < kTries);
  }

  bool lends(size_t bytes, uint32_t id) const {
    if (!can_lend(bytes)) return false;
    if (is_try(bytes, id))
      return ((id < 2 * kTries ? id / kTries : id / kTurn) & 1) == 0;
    return (heard_ >> row_of(bytes) & 1) != 0;
  }
  // Whatever that is: it chooses between two ways that are right.
  void heard(uint64_t preferred) { heard_ = preferred; }

  void took(size_t bytes, bool lent, int64_t ns) {
    int64_t& known = ns_[row_of(bytes)][lent ? 1 : 0];
    // What holds a message up can be anything; what makes it fast is the way.
    known = known == 0 || ns < known
                ? ns
                : known + (std::min(ns, 2 * known) - known) / 8;
  }
  // A bit for each size from one power of two to the next: lent.
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
